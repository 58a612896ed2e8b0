"""A lazy jit function whose length is dynamic: one kernel for every length, at the price of a bound for each element."""

from collections.abc import Callable

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_prim_func"
CONFIG = dict(block_N=1024, threads=256)


@tilelang.jit
def add(block_N, threads):
    N = T.dynamic("N")

    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), threads=threads) as bn:
            for i in T.Parallel(block_N):
                Z[bn * block_N + i] = X[bn * block_N + i] + Y[bn * block_N + i]

    return kernel


def build(problem: Problem) -> Callable[..., object]:
    kernel = add(CONFIG["block_N"], CONFIG["threads"])
    return lambda x, y, z: kernel(x, y, z)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
