"""An eager @tilelang.jit function, which would compile at its first call."""

import tilelang
import tilelang.language as T

PARENT = "iter000_torch_matmul"
CONFIG = dict(block=64)


@tilelang.jit
def gemm(A, B, C, block: int = 64):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], T.bfloat16]
    B: T.Tensor[[K, N], T.bfloat16]
    C: T.Tensor[[M, N], T.bfloat16]
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block, block), T.bfloat16)
        B_shared = T.alloc_shared((block, block), T.bfloat16)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
            T.copy(A[by * block, k * block], A_shared)
            T.copy(B[k * block, bx * block], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block, bx * block])


def build(problem):
    return gemm
