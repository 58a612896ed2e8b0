"""A second warp group makes the outputs: of six products of a chunk, two are left to the group of the state."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gated_delta import gated_delta

PARENT = "iter004_state_in_registers"
CONFIG = dict(inverse="blocks", specialize=True, output_group=True, num_stages=2, slots=2)


def build(problem: Problem) -> Program:
    return gated_delta(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
