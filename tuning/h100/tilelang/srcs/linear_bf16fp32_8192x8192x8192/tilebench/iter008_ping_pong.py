"""Two consumer groups in turns, each with a 128x192 tile of its own: one stores while the other multiplies, and never
do both wait."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import ping_pong

PARENT = "iter006_tiles_128x192"
CONFIG = dict(
    block_M=128,
    block_N=192,
    block_K=64,
    num_stages=4,
    cluster_M=1,
    cluster_N=1,
    group_M=8,
    num_sms=132,
    wgmma_in_flight=1,
    epilogue_N=64,
    epilogue_buffers=1,
)


def build(problem: Problem) -> Program:
    return ping_pong(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
