"""It gives its family other sizes than CONFIG pins, as numbers of TVM, which are not Python's."""

import tilelang.cpu.language as T

from kernels.cpu import scalar_gemm

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=128, block_N=128, block_K=128)


def build(problem):
    return scalar_gemm(problem, **{name: T.int32(16) for name in CONFIG})
