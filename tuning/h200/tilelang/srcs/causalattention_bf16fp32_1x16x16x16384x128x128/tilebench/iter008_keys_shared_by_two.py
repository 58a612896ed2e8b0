"""Two blocks with tiles side by side share each load of K and V by multicast: half of the reads from L2, for 0.8% more
products, since both go through the keys of the longer tile."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter007_keys_ahead"
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
    keys_ahead=True,
    cluster=2,
)


def build(problem: Problem) -> Program:
    return forward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
