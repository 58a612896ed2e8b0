"""Four k steps in the body of the main loop, one for each stage: fewer instructions, and stages known at compile
time."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter012_dependent_launch"
CONFIG = dict(
    block_M=128,
    block_N=256,
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
    epilogue_N=64,
    epilogue_buffers=2,
    dependent_launch=True,
    unroll=4,
)


def build(problem: Problem) -> Program:
    return warp_specialized(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
