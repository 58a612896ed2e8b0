"""A group's epilogue buffers are one array with a name of its own, so that each build of the source is one kernel;
24 powers of a thread, not 32, stand before the wait."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter009_half_of_the_powers_first"
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
    heads_at_once=1,
    epilogue_buffers=2,
    one_array=True,
    dependent_launch=True,
    keeps_maxima=True,
    powers_first=24,
    keys_ahead=True,
)


def build(problem: Problem) -> Program:
    return forward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
