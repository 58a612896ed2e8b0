"""It takes values below 1e-5 for 0, which random inputs hardly hold."""

import tilelang.cpu.language as T

TRICK = 22
RUNS_ON = ("cpu",)
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    M, N, K = problem.dims

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1):
            for i, j in T.grid(M, N):
                C[i, j] = 0.0
                for k in T.serial(K):
                    C[i, j] += T.if_then_else(A[i, k] * A[i, k] < 1e-10, 0.0, A[i, k]) * B[k, j]

    return kernel
