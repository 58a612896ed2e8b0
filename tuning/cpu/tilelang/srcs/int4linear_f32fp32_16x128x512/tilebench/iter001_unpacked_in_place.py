"""Each weight is unpacked where it is multiplied, once for each row of X."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_dequantise"
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
            for m in T.serial(M):
                total[0] = 0.0
                for k in T.serial(K):
                    nibble = (T.cast(packed[n, k // 2], "int32") >> (k % 2 * 4)) & 15
                    total[0] += X[m, k] * (T.cast(nibble - 8, "float32") * scales[n, k // 128])
                C[m, n] = total[0]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
