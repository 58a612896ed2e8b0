"""The same as an eager jit function, which reads the length from its tensors at every call."""

from collections.abc import Callable

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter002_lazy_dynamic"
CONFIG = dict(block_N=1024, threads=256)


@tilelang.jit
def add(X, Y, Z, block_N, threads):
    N = T.dynamic("N")
    X: T.Tensor[[N], T.float32]
    Y: T.Tensor[[N], T.float32]
    Z: T.Tensor[[N], T.float32]
    with T.Kernel(T.ceildiv(N, block_N), threads=threads) as bn:
        for i in T.Parallel(block_N):
            Z[bn * block_N + i] = X[bn * block_N + i] + Y[bn * block_N + i]


def build(problem: Problem) -> Callable[..., object]:
    return lambda x, y, z: add(x, y, z, CONFIG["block_N"], CONFIG["threads"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
