"""Steps of 64 with twice the stages: as much in flight, and the first products start after half of the bytes."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter013_dependent_launch_alone"
CONFIG = dict(
    block_M=64,
    block_N=64,
    block_K=64,
    num_stages=12,
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
