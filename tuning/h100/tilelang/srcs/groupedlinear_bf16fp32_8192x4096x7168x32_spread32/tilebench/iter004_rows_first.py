"""Inside an expert the rows of tiles run fastest, so that a wave reads each column of the expert's weights once."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import grouped

PARENT = "iter003_tma_store"
CONFIG = dict(
    block_M=128,
    block_N=256,
    block_K=64,
    num_stages=4,
    turns=False,
    rows_first=True,
    skip_idle=False,
    num_sms=132,
    epilogue="tma",
    epilogue_N=64,
    epilogue_buffers=2,
)


def build(problem: Problem) -> Program:
    return grouped(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
