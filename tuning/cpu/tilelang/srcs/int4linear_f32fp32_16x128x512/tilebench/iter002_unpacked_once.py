"""A row of W is unpacked once, and then multiplied by all rows of X."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter001_unpacked_in_place"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    M, N, K = problem.dims

    @T.prim_func
    def kernel(
        X: T.Tensor((M, K), "float32"),
        packed: T.Tensor((N, K // 2), "uint8"),
        scales: T.Tensor((N, K // 128), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(N) as n:
            total = T.alloc_local((1,), "float32")
            weights = T.alloc_local((K,), "float32")
            for k in T.serial(K // 2):
                byte = T.cast(packed[n, k], "int32")
                weights[2 * k] = T.cast((byte & 15) - 8, "float32") * scales[n, k // 64]
                weights[2 * k + 1] = T.cast((byte >> 4) - 8, "float32") * scales[n, k // 64]
            for m in T.serial(M):
                total[0] = 0.0
                for k in T.serial(K):
                    total[0] += X[m, k] * weights[k]
                C[m, n] = total[0]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
