"""The same as an eager jit function, whose sizes are arguments of the call beside the tensors."""

from collections.abc import Callable

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter012_raw_pointers"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


@tilelang.jit(target="c", compile_flags=list(CONFIG["compile_flags"]))
def gemm(A, B, C, M, N, K):
    A: T.Tensor[[M, K], T.float32]
    B: T.Tensor[[K, N], T.float32]
    C: T.Tensor[[M, N], T.float32]
    with T.Kernel(M) as m:
        for n in T.serial(N):
            C[m, n] = 0.0
        for k in T.serial(K):
            for n in T.serial(N):
                C[m, n] += A[m, k] * B[k, n]


def build(problem: Problem) -> Callable[..., object]:
    return lambda a, b, c: gemm(a, b, c, *problem.dims)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
