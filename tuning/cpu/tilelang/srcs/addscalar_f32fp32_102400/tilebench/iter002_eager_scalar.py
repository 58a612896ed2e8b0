"""The same as an eager jit function, whose tensors are annotated in its body."""

from collections.abc import Callable

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_lazy_scalar"
CONFIG = dict(block_N=4096, compile_flags=("-O3", "-march=native"))


@tilelang.jit(target="c", compile_flags=list(CONFIG["compile_flags"]))
def add(X, scalar, Z, block_N):
    N = T.dynamic("N")
    X: T.Tensor[[N], T.float32]
    scalar: T.Tensor[[1], T.float32]
    Z: T.Tensor[[N], T.float32]
    with T.Kernel(T.ceildiv(N, block_N)) as bn:
        for i in T.serial(T.min(block_N, N - bn * block_N)):
            Z[bn * block_N + i] = X[bn * block_N + i] + scalar[0]


def build(problem: Problem) -> Callable[..., object]:
    return lambda x, scalar, z: add(x, scalar, z, CONFIG["block_N"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
