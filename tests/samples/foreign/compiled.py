"""Compiled when it is loaded, and told to return its output."""

import tilelang
import tilelang.cpu.language as T


def matmul(M, N, K):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            for i, j in T.grid(M, N):
                C[i, j] = 0.0
                for k in T.serial(K):
                    C[i, j] += A[i, k] * B[k, j]

    return kernel


kernel = tilelang.compile(matmul(32, 32, 32), out_idx=[-1], target="c")
