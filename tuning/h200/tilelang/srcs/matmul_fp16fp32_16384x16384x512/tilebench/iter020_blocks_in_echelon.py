"""Each block one tile column ahead of the one above it, so that the 128 of them do not all ask for the same lines of B at
once."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gemm import stationary

PARENT = "iter019_stationary_rows"
CONFIG = dict(
    block_M=128,
    block_N=192,
    block_K=64,
    num_stages=3,
    lag=1,
    wgmma_in_flight=1,
    epilogue_N=32,
    epilogue_buffers=1,
)


def build(problem: Problem) -> Program:
    return stationary(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
