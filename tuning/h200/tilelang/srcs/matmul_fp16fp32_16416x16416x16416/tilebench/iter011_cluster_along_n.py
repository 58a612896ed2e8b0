"""Clusters of two along N share one multicast load of A, since 86 tile columns are 43 pairs, where pairs of the 65 tile
rows would add an empty one, and rows across two lines of L2 make its requests dear."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter010_thirteen_tile_rows"
CONFIG = dict(
    block_M=256,
    block_N=192,
    block_K=64,
    num_stages=3,
    consumer_groups=2,
    cluster_M=1,
    cluster_N=2,
    group_M=13,
    persistent=True,
    num_sms=132,
    wgmma_in_flight=0,
    epilogue="tma",
    epilogue_N=64,
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
