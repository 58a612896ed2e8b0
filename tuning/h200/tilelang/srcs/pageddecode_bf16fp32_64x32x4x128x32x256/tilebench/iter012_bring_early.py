"""The table and the lengths come to the L2 cache while the kernel before still runs."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.paged_decode import paged_decode

PARENT = "iter010_warps_look_up"
CONFIG = dict(
    block_N=64,
    num_stages=2,
    blocks_per_sm=2,
    dependent_launch=True,
    row_cost=1,
    warps_look_up=True,
    bring_early=True,
)


def build(problem: Problem) -> Program:
    return paged_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
