"""GEMM with warp specialization by hand."""

from kernels.gemm.warp_specialized.kernel import warp_specialized

__all__ = ["warp_specialized"]
