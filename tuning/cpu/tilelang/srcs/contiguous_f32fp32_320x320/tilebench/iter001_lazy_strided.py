"""A lazy jit function over a StridedTensor, row by row of the result: a cache line read for every element."""

from collections.abc import Callable

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter000_torch_copy"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


@tilelang.jit(target="c", compile_flags=list(CONFIG["compile_flags"]))
def contiguous(M, N):
    @T.prim_func
    def kernel(X: T.StridedTensor((M, N), (1, M), "float32"), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as m:
            for n in T.serial(N):
                Z[m, n] = X[m, n]

    return kernel


def build(problem: Problem) -> Callable[..., object]:
    kernel = contiguous(*problem.dims)
    return lambda x, z: kernel(x.t(), z)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
