"""Spare warps of the main kernel compute the statistics of later heads."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter012_few_fences"
CONFIG = dict(
    overlap=True,
    bulk_add=False,
    alternate=True,
    few_fences=True,
    early_free=True,
    heads_at_once=8,
    statistics_within=True,
    dependent_launch=True,
)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
