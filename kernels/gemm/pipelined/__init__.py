"""GEMM in TileLang's own schedule."""

from kernels.gemm.pipelined.kernel import pipelined

__all__ = ["pipelined"]
