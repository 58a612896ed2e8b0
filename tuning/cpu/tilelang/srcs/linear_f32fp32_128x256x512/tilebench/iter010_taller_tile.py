"""Twelve rows, 24 of 32 registers: every vector of W that is loaded from the L2 cache serves half as many FMAs again."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import register_blocked

PARENT = "iter008_wider_tile"
CONFIG = dict(block_M=12, block_N=32, block_K=512, vector_width=16, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    return register_blocked(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
