"""A kernel over raw pointers, whose shapes are stated in its body: for callers that have no tensors to show."""

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter002_n_innermost"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> object:
    M, N, K = problem.dims

    @T.prim_func
    def kernel(a: T.ptr, b: T.ptr, c: T.ptr):
        A = T.match_buffer(a, (M, K), "float32")
        B = T.match_buffer(b, (K, N), "float32")
        C = T.match_buffer(c, (M, N), "float32")
        with T.Kernel(M) as m:
            for n in T.serial(N):
                C[m, n] = 0.0
            for k in T.serial(K):
                for n in T.serial(N):
                    C[m, n] += A[m, k] * B[k, n]

    return tilelang.compile(kernel, target="c", compile_flags=list(CONFIG["compile_flags"]))


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
