"""Two blocks an SM: one counts while the other waits."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.paged_decode import paged_decode

PARENT = "iter004_equal_shares"
CONFIG = dict(block_N=32, num_stages=5, blocks_per_sm=2)


def build(problem: Problem) -> Program:
    return paged_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
