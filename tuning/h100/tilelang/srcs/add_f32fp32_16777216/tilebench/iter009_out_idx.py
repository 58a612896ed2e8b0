"""The PrimFunc makes its output itself, by out_idx: a caller who has one pays for a copy."""

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_prim_func"
CONFIG = dict(block_N=1024, threads=256, out_idx=-1)


def build(problem: Problem) -> object:
    (N,) = problem.dims
    block_N, threads = CONFIG["block_N"], CONFIG["threads"]

    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(N // block_N, threads=threads) as bn:
            for i in T.Parallel(block_N):
                Z[bn * block_N + i] = X[bn * block_N + i] + Y[bn * block_N + i]

    return tilelang.compile(kernel, out_idx=CONFIG["out_idx"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
