"""Two steps of K at once: a group waits once for both, and unpacks one while the other multiplies."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import int4_weights

PARENT = "iter009_swizzled"
CONFIG = dict(
    block_M=16,
    num_stages=12,
    consumer_groups=3,
    steps_at_once=2,
    scaled="sums",
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
