"""A group fences what it stores before any product follows, so TileLang adds no fences."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter011_dependent_launch"
CONFIG = dict(
    overlap=True,
    bulk_add=False,
    alternate=True,
    few_fences=True,
    early_free=True,
    heads_at_once=8,
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
