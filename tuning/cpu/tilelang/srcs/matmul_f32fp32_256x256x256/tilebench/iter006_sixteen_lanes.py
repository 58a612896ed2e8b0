"""Sixteen lanes instead of eight: one FMA does twice the work where the machine has 512-bit registers."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import register_blocked

PARENT = "iter005_register_vectors"
CONFIG = dict(block_M=8, block_N=16, block_K=256, vector_width=16, pack_B=False, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    return register_blocked(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
