"""Scale the 64x16 sums of each 128 of K in float32 in place of the 64x128 weights."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import int4_weights

PARENT = "iter002_unpacked_by_words"
CONFIG = dict(
    block_M=16,
    num_stages=24,
    consumer_groups=1,
    scaled="sums",
    cluster=1,
)


def build(problem: Problem) -> Program:
    return int4_weights(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
