"""It computes in another dtype than its path says."""

import tilelang.cpu.language as T

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    M, N, K = problem.dims

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float64"),
        B: T.Tensor((K, N), "float64"),
        C: T.Tensor((M, N), "float64"),
    ):
        with T.Kernel(1):
            for i, j in T.grid(M, N):
                C[i, j] = 0.0
                for k in T.serial(K):
                    C[i, j] += A[i, k] * B[k, j]

    return kernel
