"""The plain kernel, T.gemm on local tiles and no compile flags: one multiplication at a time, unoptimized."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import scalar_gemm

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=64, block_N=64, block_K=32)


def build(problem: Problem) -> Program:
    return scalar_gemm(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
