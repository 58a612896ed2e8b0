"""A lazy function with literal block sizes in its call."""

import tilelang
import tilelang.cpu.language as T

BLOCK_M = 16


@tilelang.jit(out_idx=[-1], target="c")
def matmul(m, n, k, block_M, block_N, dtype="float32"):
    @T.prim_func
    def kernel(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, block_M), T.ceildiv(n, block_N)) as (bx, by):
            for i, j in T.grid(block_M, block_N):
                C[bx * block_M + i, by * block_N + j] = 0.0
                for kk in T.serial(k):
                    C[bx * block_M + i, by * block_N + j] += A[bx * block_M + i, kk] * B[kk, by * block_N + j]

    return kernel


def bench(size=1024):
    block_N = 8
    return matmul(size, size, size, BLOCK_M, block_N)
