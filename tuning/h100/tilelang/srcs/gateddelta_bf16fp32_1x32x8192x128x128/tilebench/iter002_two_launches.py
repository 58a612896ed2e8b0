"""What a chunk decides alone moves to a launch of its own, over all 4,096 chunks at once: only two products of the state are left in turn."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.gated_delta import gated_delta

PARENT = "iter001_chunk_by_chunk"
CONFIG = dict(inverse="substitution", specialize=False, num_stages=2)


def build(problem: Problem) -> Program:
    return gated_delta(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
