"""Neighbouring blocks take the same places of different heads, whose tokens lie side by side in a page."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.paged_decode import paged_decode

PARENT = "iter012_bring_early"
CONFIG = dict(
    block_N=64,
    num_stages=2,
    blocks_per_sm=2,
    dependent_launch=True,
    row_cost=1,
    warps_look_up=True,
    bring_early=True,
    heads_together=True,
)


def build(problem: Problem) -> Program:
    return paged_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
