"""Tiles of 256x160 fill 99% of eleven waves, and store 32 columns at once."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter011_wide_store_buffer"
CONFIG = dict(
    block_M=256,
    block_N=160,
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
    epilogue_N=32,
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
