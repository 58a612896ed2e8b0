"""An eager function that makes its output; its call sets a lever."""

import tilelang
import tilelang.cpu.language as T


@tilelang.jit(target="c")
def matmul(A, B, block):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], T.float32]
    B: T.Tensor[[K, N], T.float32]
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block)) as bx:
        for i, j in T.grid(block, N):
            C[bx * block + i, j] = 0.0
            for k in T.serial(K):
                C[bx * block + i, j] += A[bx * block + i, k] * B[k, j]
    return C


def run(a, b):
    return matmul(a, b, block=16)
