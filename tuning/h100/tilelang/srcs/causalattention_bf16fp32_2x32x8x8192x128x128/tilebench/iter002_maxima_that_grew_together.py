"""The output is rescaled only where a maximum grew by eight powers of two."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter001_output_by_tma"
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
    heads_at_once=4,
    epilogue_buffers=2,
    keys_ahead=True,
    growth=8.0,
)


def build(problem: Problem) -> Program:
    return forward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
