"""A lazy jit function of dynamic length that reads the scalar from memory, so that no launch waits for its value."""

from collections.abc import Callable

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter000_torch_add"
CONFIG = dict(block_N=1024, threads=256)


@tilelang.jit
def add(block_N, threads):
    N = T.dynamic("N")

    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), scalar: T.Tensor((1,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), threads=threads) as bn:
            for i in T.Parallel(block_N):
                Z[bn * block_N + i] = X[bn * block_N + i] + scalar[0]

    return kernel


def build(problem: Problem) -> Callable[..., object]:
    kernel = add(CONFIG["block_N"], CONFIG["threads"])
    return lambda x, scalar, z: kernel(x, scalar, z)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
