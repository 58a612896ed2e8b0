"""64x128 tiles, 128 blocks for 132 SMs, and eight stages that keep up to 192 KiB per SM on the way, since the 134 MB of
W are read once and bandwidth is the limit."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import pipelined

PARENT = "iter001_stock_pipelined"
CONFIG = dict(
    block_M=64,
    block_N=128,
    block_K=64,
    num_stages=8,
    threads=128,
    policy="square",
    panel=0,
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
