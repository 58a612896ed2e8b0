"""256x128 tiles in two bands of 64 rows a group that share the partial sums: a quarter fewer bytes from L2 per flop
than square tiles."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm.block_scaled import block_scaled

PARENT = "iter002_warp_specialized"
CONFIG = dict(
    block_M=256,
    block_N=128,
    num_stages=4,
    consumer_groups=2,
    chain=1,
    cluster_M=1,
    cluster_N=1,
    group_M=16,
    num_sms=132,
    epilogue_N=32,
    epilogue_buffers=1,
)


def build(problem: Problem) -> Program:
    return block_scaled(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
