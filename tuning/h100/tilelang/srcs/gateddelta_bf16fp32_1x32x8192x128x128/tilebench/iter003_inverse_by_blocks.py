"""The inverse by blocks of 16, and four products: 16 steps of substitution in registers instead of 64 in shared memory."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gated_delta import gated_delta

PARENT = "iter002_two_launches"
CONFIG = dict(inverse="blocks", specialize=False, num_stages=2)


def build(problem: Problem) -> Program:
    return gated_delta(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
