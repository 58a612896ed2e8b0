"""8 stages of block_K 32 instead of 4 of 64, so that a stage is free sooner, since 64% of all waiting is barrier and
one more whole stage of 49,152 bytes does not fit; 230,400 of 232,448 bytes of shared memory."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter007_drain_each_step"
CONFIG = dict(
    block_M=128,
    block_N=256,
    block_K=32,
    num_stages=8,
    consumer_groups=2,
    cluster_M=1,
    cluster_N=1,
    group_M=16,
    persistent=True,
    num_sms=132,
    wgmma_in_flight=0,
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
