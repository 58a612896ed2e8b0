"""Of a thread's 80 powers 48 stand before the wait for P V, and the others after it, so that maxima that
grew by eight powers of two cannot move it up."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter013_blocks_of_160_keys"
CONFIG = dict(
    block_N=160,
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
    epilogue_buffers=2,
    growth=8.0,
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
