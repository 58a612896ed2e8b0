"""Warp specialization by hand, resident blocks and a TMA store: one consumer group scales and adds while the tensor
cores multiply for the other."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm.block_scaled import block_scaled

PARENT = "iter001_stock_pipelined"
CONFIG = dict(
    block_M=128,
    block_N=128,
    num_stages=5,
    consumer_groups=2,
    chain=1,
    cluster_M=1,
    cluster_N=1,
    group_M=16,
    num_sms=132,
    epilogue_N=64,
    epilogue_buffers=2,
)


def build(problem: Problem) -> Program:
    return block_scaled(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
