"""Tiles of 192x192 by three consumer groups: they cover 1.2% more than C, where 256x192 covers 2.0%, and leave only
four tiles beyond 56 whole waves, each cut into eight parts of K."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import stream_k

PARENT = "iter007_tiles_256x192"
CONFIG = dict(
    block_M=192,
    block_N=192,
    block_K=64,
    num_stages=4,
    consumer_groups=3,
    cluster_M=1,
    group_M=8,
    num_sms=132,
    wgmma_in_flight=0,
    epilogue_N=64,
    epilogue_buffers=1,
    tail_parts=8,
)


def build(problem: Problem) -> Program:
    return stream_k(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
