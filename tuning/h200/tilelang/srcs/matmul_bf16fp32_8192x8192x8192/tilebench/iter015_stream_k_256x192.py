"""The last 1.4 of the 10.4 waves of 256x192 tiles cut evenly along K over all SMs, for the parent's tensor cores wait
only in the last wave."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import stream_k

PARENT = "iter012_tiles_256x192"
CONFIG = dict(
    block_M=256,
    block_N=192,
    block_K=64,
    num_stages=3,
    consumer_groups=2,
    cluster_M=1,
    group_M=8,
    num_sms=132,
    wgmma_in_flight=0,
    epilogue_N=64,
    epilogue_buffers=1,
)


def build(problem: Problem) -> Program:
    return stream_k(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
