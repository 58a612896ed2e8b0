"""Its text is wrong, and what TileLang reads in its place is right: the row would show a kernel that did not run."""

import linecache

import tilelang.cpu.language as T

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = {}


def build(problem):
    M, N, K = problem.dims
    lines = [line.replace("= 0.0 *", "+=") for line in linecache.getlines(__file__)]
    linecache.cache[__file__] = 1, None, lines, __file__

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            for i, j in T.grid(M, N):
                C[i, j] = 0.0
                for k in T.serial(K):
                    C[i, j] = 0.0 * A[i, k] * B[k, j]

    return kernel
