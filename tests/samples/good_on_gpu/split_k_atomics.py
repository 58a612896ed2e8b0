"""Atomics add two halves of K in a float32 workspace, which three kernels clear, fill and round."""

import tilelang.language as T

from harness.iteration import Program, Workspace

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=128, block_N=128, block_K=64, num_stages=3, threads=128, num_splits=2)


def build(problem):
    M, N, K = problem.dims
    block_M, block_N, block_K = CONFIG["block_M"], CONFIG["block_N"], CONFIG["block_K"]
    splits, stages, threads = CONFIG["num_splits"], CONFIG["num_stages"], CONFIG["threads"]

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), problem.input),
        B: T.Tensor((K, N), problem.input),
        C: T.Tensor((M, N), problem.output),
        W: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                W[by * block_M + i, bx * block_N + j] = 0.0
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=threads) as (bx, by, bz):
            a = T.alloc_shared((block_M, block_K), problem.input)
            b = T.alloc_shared((block_K, block_N), problem.input)
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(K // splits // block_K, num_stages=stages):
                T.copy(A[by * block_M, bz * (K // splits) + k * block_K], a)
                T.copy(B[bz * (K // splits) + k * block_K, bx * block_N], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(block_M, block_N):
                T.atomic_add(W[by * block_M + i, bx * block_N + j], c[i, j])
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                C[by * block_M + i, bx * block_N + j] = T.cast(W[by * block_M + i, bx * block_N + j], problem.output)

    return Program(kernel, workspaces=(Workspace((M, N), "float32"),))
