"""An eager @tilelang.jit function; its sizes are those of its tensors."""

import tilelang
import tilelang.cpu.language as T

PARENT = "iter000_torch_matmul"
CONFIG = dict(unused=0)


@tilelang.jit(target="c")
def gemm(A, B, C):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], T.float32]
    B: T.Tensor[[K, N], T.float32]
    C: T.Tensor[[M, N], T.float32]
    with T.Kernel(1):
        for i, j in T.grid(M, N):
            C[i, j] = 0.0
            for k in T.serial(K):
                C[i, j] += A[i, k] * B[k, j]


def build(problem):
    return gemm
