"""The weight is loaded with the row, not after the sum: the reduction hides its latency."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter002_row_in_registers"
CONFIG = dict(threads=512)


def build(problem: Problem) -> Program:
    (M, N), eps = problem.dims, problem.scalars["eps"]

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "bfloat16"),
        R: T.Tensor((M, N), "bfloat16"),
        W: T.Tensor((N,), "bfloat16"),
        Y: T.Tensor((M, N), "bfloat16"),
        total: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(M, threads=CONFIG["threads"]) as m:
            row = T.alloc_fragment((N,), "float32")
            squares = T.alloc_fragment((N,), "float32")
            weight = T.alloc_fragment((N,), "bfloat16")
            square = T.alloc_fragment((1,), "float32")
            for n in T.Parallel(N):
                row[n] = T.cast(X[m, n], "float32") + T.cast(R[m, n], "float32")
            T.copy(W, weight)
            for n in T.Parallel(N):
                total[m, n] = row[n]
            for n in T.Parallel(N):
                squares[n] = row[n] * row[n]
            T.reduce_sum(squares, square, dim=0)
            square[0] = T.rsqrt(square[0] / N + eps)
            for n in T.Parallel(N):
                Y[m, n] = row[n] * square[0] * weight[n]

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
