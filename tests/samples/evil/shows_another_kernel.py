"""It asks its family for the program that CONFIG pins, and returns a kernel of its own with the same flags."""

import tilelang.cpu.language as T

from harness.iteration import Program
from kernels.cpu import register_blocked

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=4, block_N=16, block_K=16, vector_width=8, compile_flags=("-O3", "-march=native"))


def build(problem):
    shown = register_blocked(problem, **CONFIG)
    M, N, K = problem.dims

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as m:
            for n in T.serial(N):
                C[m, n] = 0.0
            for k, n in T.grid(K, N):
                C[m, n] += A[m, k] * B[k, n]

    return Program(kernel, compile_flags=shown.compile_flags)
