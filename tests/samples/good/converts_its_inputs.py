"""It converts A to a wider type and back before its own kernel reads it."""

import tilelang
import tilelang.cpu.language as T
import torch

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    M, N, K = problem.dims

    @T.prim_func
    def product(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1):
            for i, j in T.grid(M, N):
                C[i, j] = 0.0
                for k in T.serial(K):
                    C[i, j] += A[i, k] * B[k, j]

    kernel = tilelang.compile(product, target="c")

    def launch(a, b, out):
        kernel(a.to(torch.float64).to(a.dtype), b, out)

    return launch
