"""What a user would call instead: torch.matmul, the baseline that every iteration is measured against."""

from baselines import library
from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = None
CONFIG: dict[str, object] = {}


def build(problem: Problem) -> Program:
    return library(problem)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
