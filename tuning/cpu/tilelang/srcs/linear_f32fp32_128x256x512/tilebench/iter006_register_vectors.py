"""Vectors of eight lanes that the compiler keeps in registers: it left the plain loops' accumulators in memory."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import register_blocked

PARENT = "iter005_packed_w"
CONFIG = dict(block_M=6, block_N=16, block_K=512, vector_width=8, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    return register_blocked(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
