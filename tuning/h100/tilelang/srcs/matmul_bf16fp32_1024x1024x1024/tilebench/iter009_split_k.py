"""128x128 tiles shared by two blocks along K: the same 128 blocks, half the steps, and two thirds of the bytes from
L2."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import split_k

PARENT = "iter007_two_consumer_groups"
CONFIG = dict(
    block_M=128,
    block_N=128,
    block_K=64,
    num_stages=4,
    consumer_groups=2,
    split=2,
    group_M=8,
    wgmma_in_flight=1,
    epilogue_N=64,
    epilogue_buffers=1,
)


def build(problem: Problem) -> Program:
    return split_k(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
