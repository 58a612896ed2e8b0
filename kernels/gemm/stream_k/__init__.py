"""Stream-K GEMM."""

from kernels.gemm.stream_k.kernel import stream_k

__all__ = ["stream_k"]
