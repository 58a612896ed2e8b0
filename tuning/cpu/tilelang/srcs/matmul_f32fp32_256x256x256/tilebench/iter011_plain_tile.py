"""The same tile as plain loops: now that it fits the registers, the compiler's own vectorizer may schedule it better."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import register_blocked

PARENT = "iter007_wider_tile"
CONFIG = dict(block_M=8, block_N=32, block_K=256, vector_width=1, pack_B=False, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    return register_blocked(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
