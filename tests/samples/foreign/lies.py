"""It takes its time, and its tree says that it takes none; what it wants of its folder it imports."""

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
