"""Allow -ffast-math, in case the compiler finds something left to reorder."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import register_blocked

PARENT = "iter008_packed_b"
CONFIG = dict(
    block_M=8, block_N=32, block_K=256, vector_width=16, compile_flags=("-O3", "-march=native", "-ffast-math")
)


def build(problem: Problem) -> Program:
    return register_blocked(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
