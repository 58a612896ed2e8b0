"""Cut the 128 tiles evenly along K over all 132 SMs, since 4 of them, 3%, have nothing to do."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import stream_k

PARENT = "iter004_drain_each_step"
CONFIG = dict(
    block_M=128,
    block_N=256,
    block_K=64,
    num_stages=4,
    consumer_groups=2,
    cluster_M=1,
    group_M=16,
    num_sms=132,
    wgmma_in_flight=0,
    epilogue_N=64,
    epilogue_buffers=2,
)


def build(problem: Problem) -> Program:
    return stream_k(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
