"""Warp specialization by hand; a block takes the next tile when it is free, by an atomic counter, whatever the lengths are."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.varlen_attention import varlen

PARENT = "iter000_torch_varlen_attn"
CONFIG = dict(block_N=128)


def build(problem: Problem) -> Program:
    return varlen(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
