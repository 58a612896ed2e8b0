"""W packed into transposed panels of 16 columns: then vectors run along N and no sum crosses lanes."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import register_blocked

PARENT = "iter003_fast_math"
CONFIG = dict(block_M=8, block_N=16, block_K=512, vector_width=1, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    return register_blocked(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
