"""The kernel of TileLang's first example, 128x128x32 tiles and three stages: what a user gets without tuning."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import pipelined

PARENT = "iter000_torch_matmul"
CONFIG = dict(
    block_M=128,
    block_N=128,
    block_K=32,
    num_stages=3,
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
