"""64x64 tiles of TileLang's first example, 256 blocks for 132 SMs: what a user gets without tuning."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import pipelined

PARENT = "iter000_torch_matmul"
CONFIG = dict(
    block_M=64,
    block_N=64,
    block_K=64,
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
