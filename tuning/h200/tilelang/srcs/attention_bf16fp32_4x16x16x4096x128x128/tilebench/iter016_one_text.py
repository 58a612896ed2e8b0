"""Both consumer groups run one text, as in FlashAttention-3: a loop of 10 KB instead of two, which the nearest
instruction cache may hold."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter014_loads_before_the_turn"
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
    heads_at_once=1,
    epilogue_buffers=1,
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
