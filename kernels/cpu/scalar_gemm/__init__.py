"""Matrix product in tiles by TileLang's scalar T.gemm."""

from kernels.cpu.scalar_gemm.kernel import scalar_gemm

__all__ = ["scalar_gemm"]
