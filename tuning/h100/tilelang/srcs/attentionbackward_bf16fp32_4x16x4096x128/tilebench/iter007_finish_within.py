"""A warp of each group finishes dQ while the products go on, so no last kernel reads the sums and no first one clears them."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter006_atomics_of_four_heads"
CONFIG = dict(overlap=True, bulk_add=False, early_free=True, heads_at_once=4, finish_within=True)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
