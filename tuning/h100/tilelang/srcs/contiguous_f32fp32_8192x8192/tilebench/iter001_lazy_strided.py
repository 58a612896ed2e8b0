"""A lazy jit function over a StridedTensor, row by row of the result: a sector of 32 bytes read for every element."""

from collections.abc import Callable

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter000_torch_copy"
CONFIG = dict(block_N=1024, threads=256)


@tilelang.jit
def contiguous(M, N, block_N, threads):
    @T.prim_func
    def kernel(X: T.StridedTensor((M, N), (1, M), "float32"), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(M, N // block_N, threads=threads) as (m, bn):
            for n in T.Parallel(block_N):
                Z[m, bn * block_N + n] = X[m, bn * block_N + n]

    return kernel


def build(problem: Problem) -> Callable[..., object]:
    kernel = contiguous(*problem.dims, CONFIG["block_N"], CONFIG["threads"])
    return lambda x, z: kernel(x.t(), z)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
