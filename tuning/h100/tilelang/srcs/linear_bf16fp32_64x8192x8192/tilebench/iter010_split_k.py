"""64x128 tiles shared by two blocks along K: half the reads of A from L2, without a multicast that makes blocks wait
for each other at every step."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import split_k

PARENT = "iter003_warp_specialized"
CONFIG = dict(
    block_M=64,
    block_N=128,
    block_K=64,
    num_stages=7,
    consumer_groups=1,
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
