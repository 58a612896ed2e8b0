"""The eager function makes its output with T.empty, so a caller who has one pays for a copy."""

from collections.abc import Callable

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter003_eager_dynamic"
CONFIG = dict(block_N=1024, threads=256)


@tilelang.jit
def add(X, Y, block_N, threads):
    N = T.dynamic("N")
    X: T.Tensor[[N], T.float32]
    Y: T.Tensor[[N], T.float32]
    Z = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), threads=threads) as bn:
        for i in T.Parallel(block_N):
            Z[bn * block_N + i] = X[bn * block_N + i] + Y[bn * block_N + i]
    return Z


def build(problem: Problem) -> Callable[..., object]:
    return lambda x, y, z: z.copy_(add(x, y, CONFIG["block_N"], CONFIG["threads"]))


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
