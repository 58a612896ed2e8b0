"""Three passes over a row: its largest value, its exponentials with their sum, and their division."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_softmax"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    M, N = problem.dims

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as m:
            largest = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            largest[0] = X[m, 0]
            for n in T.serial(N):
                largest[0] = T.max(largest[0], X[m, n])
            total[0] = 0.0
            for n in T.serial(N):
                Y[m, n] = T.exp(X[m, n] - largest[0])
                total[0] += Y[m, n]
            total[0] = 1.0 / total[0]
            for n in T.serial(N):
                Y[m, n] *= total[0]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
