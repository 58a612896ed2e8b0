"""The same as an eager jit function, which reads the length from its tensors at every call."""

from collections.abc import Callable

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter002_lazy_dynamic"
CONFIG = dict(block_N=4096, compile_flags=("-O3", "-march=native"))


@tilelang.jit(target="c", compile_flags=list(CONFIG["compile_flags"]))
def add(X, Y, Z, block_N):
    N = T.dynamic("N")
    X: T.Tensor[[N], T.float32]
    Y: T.Tensor[[N], T.float32]
    Z: T.Tensor[[N], T.float32]
    with T.Kernel(T.ceildiv(N, block_N)) as bn:
        for i in T.serial(T.min(block_N, N - bn * block_N)):
            Z[bn * block_N + i] = X[bn * block_N + i] + Y[bn * block_N + i]


def build(problem: Problem) -> Callable[..., object]:
    return lambda x, y, z: add(x, y, z, CONFIG["block_N"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
