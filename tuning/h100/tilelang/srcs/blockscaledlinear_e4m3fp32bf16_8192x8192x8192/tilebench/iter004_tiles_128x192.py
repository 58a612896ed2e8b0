"""Tiles 192 wide, whose columns have two scales of W: a sixth fewer bytes from L2 per flop than square ones."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm.block_scaled import block_scaled

PARENT = "iter002_warp_specialized"
CONFIG = dict(
    block_M=128,
    block_N=192,
    num_stages=4,
    consumer_groups=2,
    chain=1,
    cluster_M=1,
    cluster_N=1,
    group_M=16,
    num_sms=132,
    epilogue_N=64,
    epilogue_buffers=2,
)


def build(problem: Problem) -> Program:
    return block_scaled(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
