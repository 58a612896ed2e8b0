"""torch.copy, which a user would call instead of a kernel of this ladder."""

from baselines import library
from baselines.interface import Baseline
from harness.iteration import Problem, bench_with, main, verify_with

PARENT = None
CONFIG: dict[str, object] = {}


def build(problem: Problem) -> Baseline:
    return library(problem)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
