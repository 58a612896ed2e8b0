"""A store buffer for each column of 64, for one stage less: a group hands its whole tile to TMA without a wait, so its
turn ends sooner."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import ping_pong

PARENT = "iter013_ping_pong_higher_groups"
CONFIG = dict(
    block_M=128,
    block_N=192,
    block_K=64,
    num_stages=3,
    cluster_M=1,
    cluster_N=1,
    group_M=32,
    num_sms=132,
    wgmma_in_flight=1,
    epilogue_N=64,
    epilogue_buffers=3,
)


def build(problem: Problem) -> Program:
    return ping_pong(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
