"""It imports a forbidden module."""

import os

from kernels.cpu import scalar_gemm

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    return scalar_gemm(problem, block_M=16, block_N=16, block_K=16)
