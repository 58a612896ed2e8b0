"""Loads that leave L2 last beside stores that leave it first: what all tiles share takes 34 of its 60 MB."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import ping_pong

PARENT = "iter017_stores_leave_first"
CONFIG = dict(
    block_M=128,
    block_N=192,
    block_K=64,
    num_stages=4,
    cluster_M=1,
    cluster_N=1,
    group_M=32,
    num_sms=132,
    wgmma_in_flight=1,
    epilogue_N=64,
    epilogue_buffers=1,
    eviction=("evict_last", "evict_last", "evict_first"),
)


def build(problem: Problem) -> Program:
    return ping_pong(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
