"""TMA loads the scales too, rows read together share no banks, and the launch is a dependent one."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import int4_weights

PARENT = "iter003_taking_turns"
CONFIG = dict(
    block_M=128,
    num_stages=4,
    consumer_groups=2,
    scaled="weights",
    cluster=1,
    scales_by_tma=True,
    swizzled=True,
    dependent_launch=True,
)


def build(problem: Problem) -> Program:
    return int4_weights(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
