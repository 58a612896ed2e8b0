"""Tiles of 16 x 16, a cache line wide both ways, so that every line that is read is used whole."""

from collections.abc import Callable

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_lazy_strided"
CONFIG = dict(block=16, compile_flags=("-O3", "-march=native"))


@tilelang.jit(target="c", compile_flags=list(CONFIG["compile_flags"]))
def contiguous(M, N, block):
    @T.prim_func
    def kernel(X: T.StridedTensor((M, N), (1, M), "float32"), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(M // block, N // block) as (bm, bn):
            for m, n in T.grid(block, block):
                Z[bm * block + m, bn * block + n] = X[bm * block + m, bn * block + n]

    return kernel


def build(problem: Problem) -> Callable[..., object]:
    kernel = contiguous(*problem.dims, CONFIG["block"])
    return lambda x, z: kernel(x.t(), z)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
