"""Each row counts the experts that end before it, and its dot products are summed one after another."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_grouped_mm"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    M, N, K, E = problem.dims

    @T.prim_func
    def kernel(
        X: T.Tensor((M, K), "float32"),
        W: T.Tensor((E, N, K), "float32"),
        ends: T.Tensor((E,), "int32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(M) as m:
            expert = T.alloc_local((1,), "int32")
            total = T.alloc_local((1,), "float32")
            expert[0] = 0
            for e in T.serial(E):
                if ends[e] <= m:
                    expert[0] = e + 1
            for n in T.serial(N):
                total[0] = 0.0
                for k in T.serial(K):
                    total[0] += X[m, k] * W[expert[0], n, k]
                C[m, n] = total[0]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
