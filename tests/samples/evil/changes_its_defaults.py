"""Its jit function has the pinned step as its default, and build gives it another default."""

import tilelang
import tilelang.cpu.language as T

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(step=1)


@tilelang.jit(target="c")
def gemm(M, N, K, step=1):
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1):
            for i, j in T.grid(M, N):
                C[i, j] = 0.0
                for k in T.serial(K // step):
                    for part in T.serial(step):
                        C[i, j] += A[i, k * step + part] * B[k * step + part, j]

    return kernel


def build(problem):
    return gemm(*problem.dims, step=1 << 2)
