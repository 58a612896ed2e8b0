"""Partial sums of 128 products, added up in float32: tensor cores keep 14 bits of a sum, and 8192 products leave too few
of them right."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter001_stock_pipelined"
CONFIG = dict(block_M=128, block_N=128, block_K=128, num_stages=4, threads=256)


def build(problem: Problem) -> Program:
    M, N, K = problem.dims
    block_M, block_N, block_K = CONFIG["block_M"], CONFIG["block_N"], CONFIG["block_K"]

    @T.prim_func
    def main(
        A: T.Tensor((M, K), problem.input),
        W: T.Tensor((N, K), problem.input),
        scale_A: T.Tensor((1,), "float32"),
        scale_W: T.Tensor((1,), "float32"),
        C: T.Tensor((M, N), problem.output),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=CONFIG["threads"]) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), problem.input)
            W_shared = T.alloc_shared((block_N, block_K), problem.input)
            partial = T.alloc_fragment((block_M, block_N), problem.accumulator)
            total = T.alloc_fragment((block_M, block_N), problem.accumulator)
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=CONFIG["num_stages"]):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(A_shared, W_shared, partial, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    total[i, j] += partial[i, j]
            for i, j in T.Parallel(block_M, block_N):
                total[i, j] *= scale_A[0] * scale_W[0]
            T.copy(total, C[by * block_M, bx * block_N])

    return Program(main)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
