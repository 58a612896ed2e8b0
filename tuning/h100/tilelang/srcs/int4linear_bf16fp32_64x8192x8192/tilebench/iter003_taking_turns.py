"""Three consumer groups take the steps of K in turns: one unpacks while another multiplies."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import int4_weights

PARENT = "iter002_unpacked_by_words"
CONFIG = dict(
    block_M=64,
    num_stages=9,
    consumer_groups=3,
    scaled="weights",
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
