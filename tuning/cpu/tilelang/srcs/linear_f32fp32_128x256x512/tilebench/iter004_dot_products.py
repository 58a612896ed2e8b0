"""Tiles of 4x4 dot products, each with its own vector of partial sums: eight loads feed sixteen FMAs."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter003_fast_math"
CONFIG = dict(block_M=4, block_N=4, vector_width=16, compile_flags=("-O3", "-march=native", "-ffast-math"))


def build(problem: Problem) -> Program:
    M, N, K = problem.dims
    block_M, block_N, vector_width = CONFIG["block_M"], CONFIG["block_N"], CONFIG["vector_width"]

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        W: T.Tensor((N, K), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(N // block_N, M // block_M) as (bn, bm):
            partial = T.alloc_local((block_M, block_N, vector_width), "float32")
            T.clear(partial)
            for k in T.serial(K // vector_width):
                for i, j in T.grid(block_M, block_N):
                    for lane in T.serial(vector_width):
                        partial[i, j, lane] += (
                            A[bm * block_M + i, k * vector_width + lane] * W[bn * block_N + j, k * vector_width + lane]
                        )
            for i, j in T.grid(block_M, block_N):
                C[bm * block_M + i, bn * block_N + j] = 0.0
                for lane in T.serial(vector_width):
                    C[bm * block_M + i, bn * block_N + j] += partial[i, j, lane]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
