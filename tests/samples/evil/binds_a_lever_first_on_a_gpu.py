"""It binds a lever before it calls its family, and changes CONFIG while it is loaded."""

from functools import partial

from kernels.gemm import pipelined

TRICK = 30
RUNS_ON = ("cuda",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=128, block_N=256, block_K=64, num_stages=3, threads=128)

family = partial(pipelined, block_N=128)
CONFIG.pop("block_N")


def build(problem):
    return family(problem, **CONFIG)
