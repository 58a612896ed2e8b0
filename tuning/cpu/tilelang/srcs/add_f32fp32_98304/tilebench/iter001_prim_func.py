"""One PrimFunc of this very length, compiled by name: the oldest spelling, a loop over blocks of whole vectors."""

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter000_torch_add"
CONFIG = dict(block_N=4096, compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> object:
    (N,) = problem.dims
    block_N, flags = CONFIG["block_N"], list(CONFIG["compile_flags"])

    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(N // block_N) as bn:
            for i in T.serial(block_N):
                Z[bn * block_N + i] = X[bn * block_N + i] + Y[bn * block_N + i]

    return tilelang.compile(kernel, target="c", compile_flags=flags)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
