"""A family, pinned."""

from kernels.cpu import scalar_gemm

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16, block_N=16, block_K=16)


def build(problem):
    return scalar_gemm(problem, **CONFIG)
