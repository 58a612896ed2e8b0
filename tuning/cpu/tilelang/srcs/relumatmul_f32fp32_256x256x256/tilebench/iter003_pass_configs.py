"""The compilers' levers beside the kernel's: no vectors by TileLang, fast math and unrolling by the C++ compiler."""

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_prim_func"
CONFIG = dict(
    pass_configs={"tirx.disable_vectorize": True},
    compile_flags=("-O3", "-march=native", "-ffast-math", "-funroll-loops"),
)


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

    return tilelang.compile(
        kernel, target="c", pass_configs=CONFIG["pass_configs"], compile_flags=list(CONFIG["compile_flags"])
    )


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
