"""One pass over the row: a value above the smallest of the K kept moves up a sorted list."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter001_pass_for_each"
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
            kept = T.alloc_local((K,), "float32")
            place = T.alloc_local((K,), "int32")
            for k in T.serial(K):
                kept[k] = T.min_value("float32")
                place[k] = 0
            for n in T.serial(N):
                if X[m, n] > kept[K - 1]:
                    kept[K - 1] = X[m, n]
                    place[K - 1] = n
                    for step in T.serial(K - 1):
                        if X[m, n] > kept[K - 2 - step]:
                            kept[K - 1 - step] = kept[K - 2 - step]
                            place[K - 1 - step] = place[K - 2 - step]
                            kept[K - 2 - step] = X[m, n]
                            place[K - 2 - step] = n
            for k in T.serial(K):
                values[m, k] = kept[k]
                indices[m, k] = T.cast(place[k], "int64")

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
