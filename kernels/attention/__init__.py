"""Attention forward for Hopper."""

from kernels.attention.forward import forward

__all__ = ["forward"]
