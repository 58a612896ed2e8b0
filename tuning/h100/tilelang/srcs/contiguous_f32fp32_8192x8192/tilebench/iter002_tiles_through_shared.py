"""Tiles of 64 x 64 turned in shared memory: rows of X in, rows of Z out, and a column of padding against bank conflicts."""

from collections.abc import Callable

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_lazy_strided"
CONFIG = dict(block=64, padding=1, threads=256)


@tilelang.jit
def contiguous(M, N, block, padding, threads):
    @T.prim_func
    def kernel(X: T.StridedTensor((M, N), (1, M), "float32"), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(M // block, N // block, threads=threads) as (bm, bn):
            tile = T.alloc_shared((block, block + padding), "float32")
            for n, m in T.Parallel(block, block):
                tile[n, m] = X[bm * block + m, bn * block + n]
            for m, n in T.Parallel(block, block):
                Z[bm * block + m, bn * block + n] = tile[n, m]

    return kernel


def build(problem: Problem) -> Callable[..., object]:
    kernel = contiguous(*problem.dims, CONFIG["block"], CONFIG["padding"], CONFIG["threads"])
    return lambda x, z: kernel(x.t(), z)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
