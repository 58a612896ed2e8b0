"""The turn passes on between Q K^T and P V: the other group's products are in the queue before the tensor cores run
empty."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter011_loads_before_the_turn"
CONFIG = dict(
    block_N=128,
    num_stages=2,
    consumer_groups=2,
    overlap=True,
    ping_pong=True,
    ahead=True,
    rescale_first=False,
    early_wait=False,
    partial_sums=True,
    persistent=True,
    heads_at_once=8,
    epilogue_buffers=2,
    early_loads=True,
    early_turn=True,
)


def build(problem: Problem) -> Program:
    return forward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
