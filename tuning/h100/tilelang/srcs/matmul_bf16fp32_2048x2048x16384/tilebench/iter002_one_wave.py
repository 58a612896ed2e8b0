"""128x256x64 tiles, since 2048x2048 makes 128 of them and 132 SMs take those in one wave, of 256 k steps each."""

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
