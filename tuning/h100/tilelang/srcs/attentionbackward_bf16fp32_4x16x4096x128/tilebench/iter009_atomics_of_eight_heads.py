"""Blocks of eight heads take turns, with atomics from registers."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter006_atomics_of_four_heads"
CONFIG = dict(overlap=True, bulk_add=False, early_free=True, heads_at_once=8)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
