"""Registers of 240 for a consumer and 24 for the producer, since those of 232 and 40 spill 72 bytes."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import stream_k

PARENT = "iter015_groups_of_four"
CONFIG = dict(
    block_M=256,
    block_N=192,
    block_K=64,
    num_stages=3,
    consumer_groups=2,
    cluster_M=1,
    group_M=4,
    num_sms=132,
    wgmma_in_flight=0,
    epilogue_N=64,
    epilogue_buffers=1,
    registers=(24, 240),
    tail_parts=2,
)


def build(problem: Problem) -> Program:
    return stream_k(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
