"""Each group computes the scores of half of the keys, and tells the other its maxima and weights."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.latent_decode import latent_decode

PARENT = "iter002_two_groups"
CONFIG = dict(block_N=64, num_stages=2, share_scores=True)


def build(problem: Problem) -> Program:
    return latent_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
