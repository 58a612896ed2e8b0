"""Two passes over a row and no matrix of exponentials: its largest value, then their sum."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_logsumexp"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    M, N = problem.dims

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "float32"),
        target: T.Tensor((M,), "int64"),
        loss: T.Tensor((M,), "float32"),
        lse: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(M) as m:
            largest = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            largest[0] = X[m, 0]
            for n in T.serial(N):
                largest[0] = T.max(largest[0], X[m, n])
            total[0] = 0.0
            for n in T.serial(N):
                total[0] += T.exp(X[m, n] - largest[0])
            lse[m] = T.log(total[0]) + largest[0]
            loss[m] = lse[m] - X[m, target[m]]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
