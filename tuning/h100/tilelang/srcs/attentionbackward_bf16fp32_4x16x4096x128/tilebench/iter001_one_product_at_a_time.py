"""Warp specialization by hand, one product at a time, and dQ added up by atomics straight from registers."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter000_torch_sdpa_backward"
CONFIG = dict(overlap=False, bulk_add=False)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
