"""The groups take turns: one multiplies while the other has its softmax; two tiles of heads share each load."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.latent_decode import latent_decode

PARENT = "iter004_shared_scores"
CONFIG = dict(block_N=64, num_stages=2, alternate=True)


def build(problem: Problem) -> Program:
    return latent_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
