"""Its kernel reads a lever from a global, which build sets to something else than CONFIG pins."""

import tilelang.cpu.language as T

from harness.iteration import Program

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=8)

block_M = 8


def build(problem):
    global block_M
    M, N, K = problem.dims
    block_M = 16

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(M // block_M) as row:
            for i, j in T.grid(block_M, N):
                C[row * block_M + i, j] = 0.0
                for k in T.serial(K):
                    C[row * block_M + i, j] += A[row * block_M + i, k] * B[k, j]

    return Program(kernel, compile_flags=("-O2",))
