"""The scalar T.gemm with -O3 -march=native: the compiler swaps the two inner loops and vectorizes along N."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import scalar_gemm

PARENT = "iter001_scalar_gemm"
CONFIG = dict(block_M=64, block_N=64, block_K=32, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    return scalar_gemm(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
