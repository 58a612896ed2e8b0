"""One pass over a row writes the total and sums its squares, a second one scales it."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_rms_norm"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    M, N = problem.dims
    eps = problem.scalars["eps"]

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "float32"),
        R: T.Tensor((M, N), "float32"),
        W: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float32"),
        total: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(M) as m:
            squares = T.alloc_local((1,), "float32")
            squares[0] = 0.0
            for n in T.serial(N):
                total[m, n] = X[m, n] + R[m, n]
                squares[0] += total[m, n] * total[m, n]
            squares[0] = 1.0 / T.sqrt(squares[0] / N + eps)
            for n in T.serial(N):
                Y[m, n] = total[m, n] * squares[0] * W[n]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
