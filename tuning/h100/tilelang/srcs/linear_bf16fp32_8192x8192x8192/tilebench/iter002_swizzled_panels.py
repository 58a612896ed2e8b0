"""128x256x64 tiles in panels eight tiles wide: a quarter fewer bytes from L2 per flop, and blocks that run together
share operands."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import pipelined

PARENT = "iter001_stock_pipelined"
CONFIG = dict(
    block_M=128,
    block_N=256,
    block_K=64,
    num_stages=4,
    threads=256,
    policy="square",
    panel=8,
    epilogue="direct",
)


def build(problem: Problem) -> Program:
    return pipelined(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
