"""Two consumer groups in turns with 128x128 tiles, whose 1024 fill the last of 7.8 waves as well as 512 of 128x256 do
theirs: no epilogue is bare, for more bytes per flop."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import ping_pong

PARENT = "iter009_drain_each_step"
CONFIG = dict(
    block_M=128,
    block_N=128,
    block_K=64,
    num_stages=5,
    cluster_M=2,
    cluster_N=1,
    group_M=8,
    num_sms=132,
    wgmma_in_flight=1,
    epilogue_N=64,
    epilogue_buffers=2,
)


def build(problem: Problem) -> Program:
    return ping_pong(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
