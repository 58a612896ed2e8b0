"""K passes over a copy of the row: each takes the largest value and puts the smallest float in its place."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_topk"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    M, N, K = problem.dims

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "float32"),
        values: T.Tensor((M, K), "float32"),
        indices: T.Tensor((M, K), "int64"),
    ):
        with T.Kernel(M) as m:
            row = T.alloc_local((N,), "float32")
            best = T.alloc_local((1,), "int32")
            for n in T.serial(N):
                row[n] = X[m, n]
            for k in T.serial(K):
                best[0] = 0
                for n in T.serial(N):
                    if row[n] > row[best[0]]:
                        best[0] = n
                values[m, k] = X[m, best[0]]
                indices[m, k] = T.cast(best[0], "int64")
                row[best[0]] = T.min_value("float32")

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
