"""The 56 tiles of 256x192 that ten whole waves leave over, each cut into two halves of K: 10.5 waves where the parent
has 11, and both halves read the same steps of K at once."""

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
    tail_parts=2,
)


def build(problem: Problem) -> Program:
    return stream_k(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
