"""A group says early that it has read dS, so that the faster group no longer waits for the slower before it writes the next."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter003_bulk_additions"
CONFIG = dict(overlap=True, bulk_add=True, early_free=True)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
