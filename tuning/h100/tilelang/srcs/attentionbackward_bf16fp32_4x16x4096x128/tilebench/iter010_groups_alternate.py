"""The groups add to dQ at different times: the first early and in bulk, the second later by atomics."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter009_atomics_of_eight_heads"
CONFIG = dict(overlap=True, bulk_add=False, alternate=True, early_free=True, heads_at_once=8)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
