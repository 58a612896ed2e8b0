"""A lazy jit function whose length is dynamic: one kernel for every length, at the price of a bound in the loop."""

from collections.abc import Callable

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_prim_func"
CONFIG = dict(block_N=4096, compile_flags=("-O3", "-march=native"))


@tilelang.jit(target="c", compile_flags=list(CONFIG["compile_flags"]))
def add(block_N):
    N = T.dynamic("N")

    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block_N)) as bn:
            for i in T.serial(T.min(block_N, N - bn * block_N)):
                Z[bn * block_N + i] = X[bn * block_N + i] + Y[bn * block_N + i]

    return kernel


def build(problem: Problem) -> Callable[..., object]:
    kernel = add(CONFIG["block_N"])
    return lambda x, y, z: kernel(x, y, z)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
