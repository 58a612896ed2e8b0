"""Two blocks of 128x128 tiles per SM, 96 KiB of shared memory each, so that one multiplies while the other stores."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import pipelined

PARENT = "iter002_wide_tiles"
CONFIG = dict(
    block_M=128,
    block_N=128,
    block_K=64,
    num_stages=3,
    threads=256,
    policy="square",
    panel=8,
    epilogue="direct",
    registers=(24, 104),
    min_blocks_per_sm=2,
)


def build(problem: Problem) -> Program:
    return pipelined(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
