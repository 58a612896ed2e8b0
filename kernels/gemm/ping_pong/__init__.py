"""Warp-specialized GEMM: two consumer groups take tiles in turns."""

from kernels.gemm.ping_pong.kernel import ping_pong

__all__ = ["ping_pong"]
