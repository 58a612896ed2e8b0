"""Tiles 224 wide, one WGMMA each: 2368 tiles fill the last of 18 waves to 94%, where 128x256 ones fill that of 16 to
half."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter006_drain_each_step"
CONFIG = dict(
    block_M=128,
    block_N=224,
    block_K=64,
    num_stages=4,
    consumer_groups=2,
    cluster_M=1,
    cluster_N=1,
    group_M=16,
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
