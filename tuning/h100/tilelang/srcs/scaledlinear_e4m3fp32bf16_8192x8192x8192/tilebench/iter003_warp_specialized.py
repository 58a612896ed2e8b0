"""Warp specialization by hand on 128x192 tiles: WGMMA stays in flight for four steps, whose sums one consumer group
then adds in float32 while the tensor cores work for the other."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm.warp_specialized import warp_specialized

PARENT = "iter002_float32_sums"
CONFIG = dict(
    block_M=128,
    block_N=192,
    block_K=128,
    num_stages=4,
    consumer_groups=2,
    cluster_M=1,
    cluster_N=1,
    group_M=8,
    persistent=False,
    num_sms=132,
    wgmma_in_flight=1,
    epilogue="direct",
    epilogue_N=64,
    epilogue_buffers=2,
    promote_steps=4,
)


def build(problem: Problem) -> Program:
    return warp_specialized(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
