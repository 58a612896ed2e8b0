"""Blocks of four heads take turns, so that blocks that run at once are as long as each other, and the last ones short."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter004_early_free"
CONFIG = dict(overlap=True, bulk_add=True, early_free=True, heads_at_once=4)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
