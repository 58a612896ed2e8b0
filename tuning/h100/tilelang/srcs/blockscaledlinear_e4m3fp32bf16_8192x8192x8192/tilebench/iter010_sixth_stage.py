"""One store buffer instead of two makes room for a sixth stage, since chains keep two stages busy in each group."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm.block_scaled import block_scaled

PARENT = "iter003_two_partial_sums"
CONFIG = dict(
    block_M=128,
    block_N=128,
    num_stages=6,
    consumer_groups=2,
    chain=4,
    cluster_M=1,
    cluster_N=1,
    group_M=16,
    num_sms=132,
    epilogue_N=64,
    epilogue_buffers=1,
)


def build(problem: Problem) -> Program:
    return block_scaled(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
