"""A group's epilogue buffers are one array with a name of its own, so that each build of the source is one kernel."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.varlen_attention import varlen

PARENT = "iter006_keeps_maxima"
CONFIG = dict(block_N=128, epilogue_buffers=2, one_array=True, keeps_maxima=True, powers_first=24)


def build(problem: Problem) -> Program:
    return varlen(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
