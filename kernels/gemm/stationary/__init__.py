"""GEMM that keeps rows of A in shared memory."""

from kernels.gemm.stationary.kernel import stationary

__all__ = ["stationary"]
