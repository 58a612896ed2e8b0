"""A block for each row in 16-byte vectors: the row stays in float32 registers between largest value, sum and quotient."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_softmax"
CONFIG = dict(threads=512)


def build(problem: Problem) -> Program:
    M, N = problem.dims

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "bfloat16"), Y: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(M, threads=CONFIG["threads"]) as m:
            row = T.alloc_fragment((N,), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            for n in T.Parallel(N):
                row[n] = X[m, n]
            T.reduce_max(row, largest, dim=0)
            for n in T.Parallel(N):
                row[n] = T.exp(row[n] - largest[0])
            T.reduce_sum(row, total, dim=0)
            total[0] = 1.0 / total[0]
            for n in T.Parallel(N):
                Y[m, n] = row[n] * total[0]

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
