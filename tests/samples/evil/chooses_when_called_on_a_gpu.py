"""Its kernel is made at its first call, by another step than CONFIG pins."""

import tilelang
import tilelang.language as T

TRICK = 30
RUNS_ON = ("cuda",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(step=16)


@tilelang.jit
def gemm(A, B, C, step):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], T.bfloat16]
    B: T.Tensor[[K, N], T.bfloat16]
    C: T.Tensor[[M, N], T.bfloat16]
    with T.Kernel(N // 128, M // 128, threads=128) as (n, m):
        a = T.alloc_shared((128, step), T.bfloat16)
        b = T.alloc_shared((step, 128), T.bfloat16)
        c = T.alloc_fragment((128, 128), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // step, num_stages=3):
            T.copy(A[m * 128, k * step], a)
            T.copy(B[k * step, n * 128], b)
            T.gemm(a, b, c)
        T.copy(c, C[m * 128, n * 128])


def build(problem):
    return lambda a, b, c: gemm(a, b, c, 64)
