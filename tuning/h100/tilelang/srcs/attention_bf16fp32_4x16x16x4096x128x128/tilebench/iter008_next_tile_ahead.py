"""The next tile's first Q K^T under this one's last P V (ahead), which takes a second buffer of Q and leaves room for
160 keys."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.flash_attention import forward

PARENT = "iter006_rescale_first"
CONFIG = dict(
    block_N=160,
    num_stages=2,
    consumer_groups=2,
    overlap=True,
    ping_pong=True,
    ahead=True,
    rescale_first=True,
    early_wait=False,
    partial_sums=True,
    persistent=True,
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
