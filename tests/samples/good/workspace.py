"""It transposes B into a workspace, which is allocated once."""

import tilelang.cpu.language as T

from harness.iteration import Program, Workspace

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    M, N, K = problem.dims

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
        transposed: T.Tensor((N, K), "float32"),
    ):
        with T.Kernel(1):
            for k, j in T.grid(K, N):
                transposed[j, k] = B[k, j]
            for i, j in T.grid(M, N):
                C[i, j] = 0.0
                for k in T.serial(K):
                    C[i, j] += A[i, k] * transposed[j, k]

    return Program(kernel, workspaces=(Workspace((N, K), "float32"),))
