"""Vectors of eight lanes that the compiler keeps in registers: float4 of the template is an array in memory."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import register_blocked

PARENT = "iter004_vectorized_tile"
CONFIG = dict(block_M=6, block_N=16, block_K=256, vector_width=8, pack_B=False, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    return register_blocked(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
