"""Its kernel is made at its first call, by another step than CONFIG pins."""

import tilelang
import tilelang.cpu.language as T

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(step=1)


@tilelang.jit(target="c")
def gemm(A, B, C, step):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], T.float32]
    B: T.Tensor[[K, N], T.float32]
    C: T.Tensor[[M, N], T.float32]
    with T.Kernel(1):
        for i, j in T.grid(M, N):
            C[i, j] = 0.0
            for k in T.serial(K // step):
                for part in T.serial(step):
                    C[i, j] += A[i, k * step + part] * B[k * step + part, j]


def build(problem):
    return lambda a, b, c: gemm(a, b, c, 4)
