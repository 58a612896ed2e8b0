"""The lever that iter005 names and lacks: a tile's first maxima stay until a sum of powers says otherwise."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.varlen_attention import varlen

PARENT = "iter002_output_by_tma"
CONFIG = dict(block_N=128, epilogue_buffers=2, keeps_maxima=True, powers_first=24)


def build(problem: Problem) -> Program:
    return varlen(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
