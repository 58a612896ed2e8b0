"""It takes values below 1e-5 for 0, which random inputs hardly hold."""

import tilelang.language as T

TRICK = 22
RUNS_ON = ("cuda",)
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(stages=1)


def build(problem):
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
            for k in T.serial(K // 64):
                T.copy(A[m * 128, k * 64], a)
                T.copy(B[k * 64, n * 128], b)
                for i, j in T.Parallel(128, 64):
                    a[i, j] = T.if_then_else(T.abs(T.cast(a[i, j], "float32")) < 1e-5, T.bfloat16(0), a[i, j])
                T.gemm(a, b, c)
            T.copy(c, C[m * 128, n * 128])

    return kernel
