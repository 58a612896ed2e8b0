"""Two consumer groups take the steps of K in turns: one unpacks while another
multiplies, on four stages, as each belongs to one group."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import int4_weights

PARENT = "iter002_unpacked_by_words"
CONFIG = dict(
    block_M=128,
    num_stages=4,
    consumer_groups=2,
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
