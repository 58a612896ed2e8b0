"""An eager jit function with a constant length: four floats a thread, and no bound."""

from collections.abc import Callable

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_lazy_scalar"
CONFIG = dict(block_N=1024, threads=256)


@tilelang.jit
def add(X, scalar, Z, block_N, threads):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    scalar: T.Tensor[[1], T.float32]
    Z: T.Tensor[[N], T.float32]
    with T.Kernel(N // block_N, threads=threads) as bn:
        for i in T.Parallel(block_N):
            Z[bn * block_N + i] = X[bn * block_N + i] + scalar[0]


def build(problem: Problem) -> Callable[..., object]:
    return lambda x, scalar, z: add(x, scalar, z, CONFIG["block_N"], CONFIG["threads"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
