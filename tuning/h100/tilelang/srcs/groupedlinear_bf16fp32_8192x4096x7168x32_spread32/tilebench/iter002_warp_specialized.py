"""Warp specialization by hand on 128x256 tiles; resident blocks walk the tiles of all experts, and each role follows the
experts by a cursor of its own."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import grouped

PARENT = "iter001_stock_pipelined"
CONFIG = dict(
    block_M=128,
    block_N=256,
    block_K=64,
    num_stages=4,
    turns=False,
    rows_first=False,
    skip_idle=False,
    num_sms=132,
    epilogue="direct",
)


def build(problem: Problem) -> Program:
    return grouped(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
