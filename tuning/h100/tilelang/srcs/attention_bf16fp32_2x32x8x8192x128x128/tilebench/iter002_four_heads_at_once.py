"""The four heads that share keys run together, so their keys are read from the L2 once."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter001_rescale_after"
CONFIG = dict(
    block_N=176,
    num_stages=2,
    consumer_groups=2,
    overlap=True,
    ping_pong=True,
    ahead=False,
    rescale_first=False,
    early_wait=False,
    partial_sums=True,
    persistent=True,
    heads_at_once=4,
    epilogue_buffers=1,
)


def build(problem: Problem) -> Program:
    return forward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
