"""Warp specialization by hand on 64x128 tiles with k steps of 128: one consumer group and only eight hand-overs per
tile."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter002_one_wave"
CONFIG = dict(
    block_M=64,
    block_N=128,
    block_K=128,
    num_stages=4,
    consumer_groups=1,
    cluster_M=1,
    cluster_N=1,
    group_M=8,
    persistent=False,
    wgmma_in_flight=1,
    epilogue="direct",
)


def build(problem: Problem) -> Program:
    return warp_specialized(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
