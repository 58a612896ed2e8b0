"""A kernel that is compiled without naming a target, and means the harness's."""

import tilelang
import tilelang.cpu.language as T

PARENT = "iter000_torch_matmul"
CONFIG = {}


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
                    C[i, j] += A[i, k] * B[k, j]

    return tilelang.compile(kernel)
