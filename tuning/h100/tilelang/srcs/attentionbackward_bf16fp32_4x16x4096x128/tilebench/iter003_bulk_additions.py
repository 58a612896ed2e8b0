"""A bulk copy adds dQ from shared memory, which saves each thread eight atomics a step that compete for issue."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter002_products_overlap"
CONFIG = dict(overlap=True, bulk_add=True)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
