"""Each product is waited for where its result is needed, so that powers and conversions run beside the next one."""

from harness.iteration import Problem, Program, bench_with, main, verify_with
from kernels.attention_backward import backward

PARENT = "iter001_one_product_at_a_time"
CONFIG = dict(overlap=True, bulk_add=False)


def build(problem: Problem) -> Program:
    return backward(problem, **CONFIG)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
