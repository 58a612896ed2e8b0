"""Each warp finds its share by shuffles and waits for no other; the table comes to the L2 cache meanwhile."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.latent_decode import latent_decode

PARENT = "iter005_groups_alternate"
CONFIG = dict(block_N=64, num_stages=2, alternate=True, warps_look_up=True)


def build(problem: Problem) -> Program:
    return latent_decode(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
