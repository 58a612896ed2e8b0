"""Store through shared memory by TMA, which writes whole rows of the tile; its 64 KiB lie where the stages were, so
nothing else changes."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import pipelined

PARENT = "iter002_wide_tiles"
CONFIG = dict(block_M=128, block_N=256, block_K=64, num_stages=4, threads=256, policy="square", panel=8, epilogue="tma")


def build(problem: Problem) -> Program:
    return pipelined(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
