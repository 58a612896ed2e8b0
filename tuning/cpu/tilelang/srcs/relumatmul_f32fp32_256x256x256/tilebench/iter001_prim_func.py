"""The function written into the loop of one PrimFunc, N innermost so that the compiler makes vectors."""

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter000_torch_relu_then_matmul"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> object:
    M, N, K = problem.dims

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as m:
            for n in T.serial(N):
                C[m, n] = 0.0
            for k in T.serial(K):
                for n in T.serial(N):
                    C[m, n] += T.max(A[m, k], 0.0) * B[k, n]

    return tilelang.compile(kernel, target="c", compile_flags=list(CONFIG["compile_flags"]))


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
