"""The consumer groups take 128x192 tiles in turns, as K is short: one stores while the other multiplies."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import grouped

PARENT = "iter004_rows_first"
CONFIG = dict(
    block_M=128,
    block_N=192,
    block_K=64,
    num_stages=4,
    turns=True,
    rows_first=True,
    skip_idle=False,
    num_sms=132,
    epilogue="tma",
    epilogue_N=64,
    epilogue_buffers=1,
)


def build(problem: Problem) -> Program:
    return grouped(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
