"""A tile of 8x16 sums, each k step adding an outer product: no copies of A and B, and C is written once."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter003_optimizing_compiler"
CONFIG = dict(block_M=8, block_N=16, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    M, N, K = problem.dims
    block_M, block_N = CONFIG["block_M"], CONFIG["block_N"]

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(N // block_N, M // block_M) as (bn, bm):
            tile = T.alloc_local((block_M, block_N), "float32")
            T.clear(tile)
            for k in T.serial(K):
                for i in T.unroll(block_M):
                    for j in T.vectorized(block_N):
                        tile[i, j] += A[bm * block_M + i, k] * B[k, bn * block_N + j]
            for i in T.unroll(block_M):
                for j in T.vectorized(block_N):
                    C[bm * block_M + i, bn * block_N + j] = tile[i, j]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
