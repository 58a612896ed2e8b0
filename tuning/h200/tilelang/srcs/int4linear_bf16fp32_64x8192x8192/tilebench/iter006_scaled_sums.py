"""Scale the 64x64 sums of each 128 of K in float32 in place of the 64x128 weights, which are twice as many."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import int4_weights

PARENT = "iter005_cluster_of_four"
CONFIG = dict(
    block_M=64,
    num_stages=9,
    consumer_groups=3,
    scaled="sums",
    cluster=4,
)


def build(problem: Problem) -> Program:
    return int4_weights(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
