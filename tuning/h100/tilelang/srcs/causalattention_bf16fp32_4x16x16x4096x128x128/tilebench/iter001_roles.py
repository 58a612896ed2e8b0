"""Roles for Hopper and no order among them: Q K^T, softmax and P V of a block of keys one after the other, two groups
of 64 queries, since TMA and the other group already hide some of it."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter000_torch_sdpa"
CONFIG = dict(
    block_N=128,
    num_stages=2,
    consumer_groups=2,
    overlap=False,
    ping_pong=False,
    ahead=False,
    rescale_first=False,
    early_wait=False,
    partial_sums=True,
    persistent=False,
    heads_at_once=1,
)


def build(problem: Problem) -> Program:
    return forward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
