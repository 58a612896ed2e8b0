"""Warp specialization by hand; 132 blocks have equal shares of all keys, whatever the lengths are."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.paged_decode import paged_decode

PARENT = "iter002_eight_splits"
CONFIG = dict(block_N=64, num_stages=6, blocks_per_sm=1)


def build(problem: Problem) -> Program:
    return paged_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
