"""It asks its family for the program that CONFIG pins, and returns a kernel of its own."""

import tilelang.language as T

from harness.iteration import Program
from kernels.gemm import pipelined

TRICK = 30
RUNS_ON = ("cuda",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=64, block_N=64, block_K=64, num_stages=1, threads=128)


def build(problem):
    pipelined(problem, **CONFIG)
    M, N, K = problem.dims

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((K, N), "bfloat16"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(N // 128, M // 128, threads=128) as (n, m):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 128), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(K // 64, num_stages=3):
                T.copy(A[m * 128, k * 64], a)
                T.copy(B[k * 64, n * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[m * 128, n * 128])

    return Program(kernel)
