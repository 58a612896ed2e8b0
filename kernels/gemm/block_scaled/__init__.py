"""8-bit GEMM with one scale for each block of its inputs."""

from kernels.gemm.block_scaled.kernel import block_scaled

__all__ = ["block_scaled"]
