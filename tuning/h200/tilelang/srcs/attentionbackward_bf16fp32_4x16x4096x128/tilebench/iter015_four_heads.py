"""Four heads at once, not eight."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter014_skip_hidden"
CONFIG = dict(
    overlap=True,
    bulk_add=False,
    alternate=True,
    early_free=True,
    skip_hidden=True,
    heads_at_once=4,
    dependent_launch=True,
)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
