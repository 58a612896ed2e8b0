"""17 stages of block_K 32 instead of 8 of 64, so that a stage is free sooner, since 39% of all waiting is
long_scoreboard and one more whole stage of 24,576 bytes does not fit; 226,304 of 232,448 bytes of shared memory."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter007_two_consumer_groups"
CONFIG = dict(
    block_M=128,
    block_N=64,
    block_K=32,
    num_stages=17,
    consumer_groups=2,
    cluster_M=1,
    cluster_N=1,
    group_M=8,
    persistent=False,
    wgmma_in_flight=1,
    epilogue="tma",
    epilogue_N=64,
    epilogue_buffers=2,
)


def build(problem: Problem) -> Program:
    return warp_specialized(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
