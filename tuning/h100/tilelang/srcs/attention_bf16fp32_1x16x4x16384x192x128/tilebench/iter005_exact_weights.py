"""A weight that is most of its row becomes 1, which 16 bits hold exactly; other maxima stay."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter004_kept_maxima"
CONFIG = dict(
    block_N=128,
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
    keeps_maxima=True,
    exact_weights=True,
    powers_first=48,
)


def build(problem: Problem) -> Program:
    return forward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
