"""A row counts as three pairs more where shares are cut."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.latent_decode import latent_decode

PARENT = "iter006_warps_look_up"
CONFIG = dict(block_N=64, num_stages=2, alternate=True, row_cost=3, warps_look_up=True)


def build(problem: Problem) -> Program:
    return latent_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
