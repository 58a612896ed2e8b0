"""A field of its own has the name of a library call."""

from dataclasses import dataclass

import tilelang.cpu.language as T

PARENT = "iter000_torch_matmul"
CONFIG = dict(mm=3)


@dataclass
class Loops:
    mm: int


def build(problem):
    M, N, K = problem.dims
    if Loops(CONFIG["mm"]).mm != len(problem.dims):
        raise ValueError("a product has three dimensions")

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

    return kernel
