"""N innermost instead of K, so that B and C are read along their rows: a better order by itself, before any flags."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.cpu import plain_loops

PARENT = "iter001_scalar_gemm"
CONFIG = dict(loop_order="mkn")


def build(problem: Problem) -> Program:
    return plain_loops(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
