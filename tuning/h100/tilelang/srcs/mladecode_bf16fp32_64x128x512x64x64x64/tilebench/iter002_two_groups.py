"""Warp specialization by hand: equal shares of all keys, of which two groups compute all scores and half of the output."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.latent_decode import latent_decode

PARENT = "iter001_stock_pipelined"
CONFIG = dict(block_N=64, num_stages=2)


def build(problem: Problem) -> Program:
    return latent_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
