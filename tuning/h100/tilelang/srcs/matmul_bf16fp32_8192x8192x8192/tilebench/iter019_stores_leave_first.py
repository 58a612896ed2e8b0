"""Stores of C leave L2 first, which was faster at 16384x16384x16384."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import stream_k

PARENT = "iter014_tail_cut_in_two"
CONFIG = dict(
    block_M=256,
    block_N=192,
    block_K=64,
    num_stages=3,
    consumer_groups=2,
    cluster_M=1,
    group_M=8,
    num_sms=132,
    wgmma_in_flight=0,
    epilogue_N=64,
    epilogue_buffers=1,
    tail_parts=2,
    eviction=(None, None, "evict_first"),
)


def build(problem: Problem) -> Program:
    return stream_k(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
