"""Six stages with k steps of 128 keep up to 192 KiB per SM on the way, since the 134 MB of W are read once and
bandwidth is the limit."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import pipelined

PARENT = "iter001_stock_pipelined"
CONFIG = dict(
    block_M=64,
    block_N=64,
    block_K=128,
    num_stages=6,
    threads=128,
    policy="square",
    panel=0,
    epilogue="direct",
)


def build(problem: Problem) -> Program:
    return pipelined(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
