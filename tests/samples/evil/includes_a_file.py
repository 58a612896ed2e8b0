"""Its source includes a file that no hash covers, so the row could stand for another kernel tomorrow."""

from pathlib import Path

import tilelang.cpu.language as T

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = {}


def build(problem):
    M, N, K = problem.dims
    Path("k.h").write_text("#define WEIGHT 1.0f")

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, prelude=f'\n#include "{Path("k.h").resolve()}"\n'):
            for i, j in T.grid(M, N):
                C[i, j] = 0.0
                for k in T.serial(K):
                    C[i, j] += A[i, k] * B[k, j]

    return kernel
