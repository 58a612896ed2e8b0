"""Two blocks an SM with 64 keys at a time: enough in flight, and half of the steps of 32."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.paged_decode import paged_decode

PARENT = "iter006_blocks_of_128_keys"
CONFIG = dict(block_N=64, num_stages=2, blocks_per_sm=2)


def build(problem: Problem) -> Program:
    return paged_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
