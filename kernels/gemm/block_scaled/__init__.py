"""8-bit GEMM whose inputs have one scale for each block."""

from kernels.gemm.block_scaled.kernel import block_scaled

__all__ = ["block_scaled"]
