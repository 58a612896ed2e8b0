"""A third stage of the ring for the second slot of outputs: the loads of two chunks run ahead of the state."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gated_delta import gated_delta

PARENT = "iter005_output_group"
CONFIG = dict(inverse="blocks", specialize=True, output_group=True, num_stages=3, slots=1)


def build(problem: Problem) -> Program:
    return gated_delta(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
