"""A quad reads 16 bytes of a row of W at once, and three instructions make of a byte a pair of numbers where WGMMA takes
its left operand, behind a producer warp that loads many stages ahead."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import int4_weights

PARENT = "iter001_stock_pipelined"
CONFIG = dict(
    block_M=64,
    num_stages=9,
    consumer_groups=1,
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
