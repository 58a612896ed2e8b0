"""7 stages instead of 6, so that loads run further ahead, since 71% of all waiting is long_scoreboard; 230,400 of
232,448 bytes of shared memory."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import pipelined

PARENT = "iter002_deep_ring"
CONFIG = dict(
    block_M=64,
    block_N=64,
    block_K=128,
    num_stages=7,
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
