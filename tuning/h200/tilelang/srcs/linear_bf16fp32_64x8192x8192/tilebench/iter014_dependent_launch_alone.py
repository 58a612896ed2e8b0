"""A dependent launch without clusters, which led on an H100: the blocks of the next launch prepare their barriers behind
the last blocks of this one."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter003_warp_specialized"
CONFIG = dict(
    block_M=64,
    block_N=64,
    block_K=128,
    num_stages=6,
    consumer_groups=1,
    cluster_M=1,
    cluster_N=1,
    group_M=1,
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
