"""It is slow, and its tree claims that it takes no time; it imports a module from its folder."""

import tilelang.cpu.language as T
from sizes import SIZE


@T.prim_func
def matmul(
    A: T.Tensor((SIZE, SIZE), "float32"), B: T.Tensor((SIZE, SIZE), "float32"), C: T.Tensor((SIZE, SIZE), "float32")
):
    with T.Kernel(1):
        for repeat in T.serial(20):
            for i, j in T.grid(SIZE, SIZE):
                C[i, j] = 0.0
                for k in T.serial(SIZE):
                    C[i, j] += A[i, k] * B[k, j]
