"""Store by TMA from shared memory, since with 8 k steps the epilogue is a large part of a tile and direct stores
write 16-byte pieces of rows."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import warp_specialized

PARENT = "iter003_warp_specialized"
CONFIG = dict(
    block_M=64,
    block_N=128,
    block_K=128,
    num_stages=4,
    consumer_groups=1,
    cluster_M=1,
    cluster_N=1,
    group_M=8,
    persistent=False,
    wgmma_in_flight=1,
    epilogue="tma",
    epilogue_N=64,
    epilogue_buffers=2,
)


def build(problem: Problem) -> Program:
    return warp_specialized(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
