"""The sum of squares in sixteen lanes, so that no addition waits for the one before."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter001_one_pass_a_row"
CONFIG = dict(lanes=16, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    M, N = problem.dims
    eps, lanes = problem.scalars["eps"], CONFIG["lanes"]

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "float32"),
        R: T.Tensor((M, N), "float32"),
        W: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float32"),
        total: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(M) as m:
            squares = T.alloc_local((lanes,), "float32")
            for lane in T.serial(lanes):
                squares[lane] = 0.0
            for block in T.serial(N // lanes):
                for lane in T.serial(lanes):
                    total[m, block * lanes + lane] = X[m, block * lanes + lane] + R[m, block * lanes + lane]
                    squares[lane] += total[m, block * lanes + lane] * total[m, block * lanes + lane]
            for lane in T.serial(lanes - 1):
                squares[0] += squares[lane + 1]
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
