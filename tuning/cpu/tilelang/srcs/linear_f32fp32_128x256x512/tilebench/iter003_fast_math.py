"""With -ffast-math the sum over K may be reordered, so the compiler vectorizes it: both operands are contiguous in K."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import scalar_gemm

PARENT = "iter002_optimizing_compiler"
CONFIG = dict(block_M=64, block_N=64, block_K=32, compile_flags=("-O3", "-march=native", "-ffast-math"))


def build(problem: Problem) -> Program:
    return scalar_gemm(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
