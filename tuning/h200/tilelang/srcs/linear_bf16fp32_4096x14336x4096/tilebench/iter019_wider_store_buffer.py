"""Stores of 88 columns in the place of 16: the epilogue of 256x176 tiles waits twice, not eleven times."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter014_tiles_256x176"
CONFIG = dict(
    block_M=256,
    block_N=176,
    block_K=64,
    num_stages=3,
    consumer_groups=2,
    cluster_M=1,
    cluster_N=1,
    group_M=8,
    persistent=True,
    num_sms=132,
    wgmma_in_flight=0,
    epilogue="tma",
    epilogue_N=88,
    epilogue_buffers=1,
)


def build(problem: Problem) -> Program:
    return warp_specialized(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
