"""Split-K GEMM in clusters."""

from kernels.gemm.split_k.kernel import split_k

__all__ = ["split_k"]
