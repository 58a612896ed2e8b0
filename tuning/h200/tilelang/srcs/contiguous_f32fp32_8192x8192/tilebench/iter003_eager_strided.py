"""The tiles as an eager jit function, its sizes and strides constants that are read from the tensors."""

from collections.abc import Callable

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter002_tiles_through_shared"
CONFIG = dict(block=64, padding=1, threads=256)


@tilelang.jit
def contiguous(X, Z, block, padding, threads):
    M, N, stride_M, stride_N = T.const("M, N, stride_M, stride_N")
    X: T.StridedTensor[[M, N], [stride_M, stride_N], T.float32]
    Z: T.Tensor[[M, N], T.float32]
    with T.Kernel(M // block, N // block, threads=threads) as (bm, bn):
        tile = T.alloc_shared((block, block + padding), T.float32)
        for n, m in T.Parallel(block, block):
            tile[n, m] = X[bm * block + m, bn * block + n]
        for m, n in T.Parallel(block, block):
            Z[bm * block + m, bn * block + n] = tile[n, m]


def build(problem: Problem) -> Callable[..., object]:
    return lambda x, z: contiguous(x.t(), z, CONFIG["block"], CONFIG["padding"], CONFIG["threads"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
