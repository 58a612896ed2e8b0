"""A producer warp loads chunks ahead by TMA, and products run beside each other: only the chain of states waits."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gated_delta import gated_delta

PARENT = "iter003_inverse_by_blocks"
CONFIG = dict(inverse="blocks", specialize=True, num_stages=2)


def build(problem: Problem) -> Program:
    return gated_delta(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
