"""Atomics from registers add dQ up, as in iter002, where blocks of four heads take turns; groups free dS early."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter005_four_heads_at_once"
CONFIG = dict(overlap=True, bulk_add=False, early_free=True, heads_at_once=4)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
