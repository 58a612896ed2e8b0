"""With the factor first, the waits before the turn and one text for both groups: the loop of FlashAttention-3, but for
its scheduler."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter010_row_by_row"
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
    heads_at_once=2,
    epilogue_buffers=2,
    by_row=True,
    early_loads=True,
    one_text=True,
)


def build(problem: Problem) -> Program:
    return forward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
