"""Programmatic dependent launch, as launch, barriers and first loads are several of 36 us: blocks are resident when the
kernel before them ends."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter003_warp_specialized"
CONFIG = dict(
    block_M=64,
    block_N=128,
    block_K=64,
    num_stages=8,
    consumer_groups=1,
    cluster_M=1,
    cluster_N=1,
    group_M=8,
    persistent=False,
    wgmma_in_flight=1,
    epilogue="tma",
    epilogue_N=64,
    epilogue_buffers=2,
    dependent_launch=True,
)


def build(problem: Problem) -> Program:
    return warp_specialized(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
