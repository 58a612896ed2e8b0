"""The tiles as an eager jit function, its sizes and strides constants that are read from the tensors."""

from collections.abc import Callable

import tilelang
import tilelang.cpu.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter002_tiles_of_lines"
CONFIG = dict(block=16, compile_flags=("-O3", "-march=native"))


@tilelang.jit(target="c", compile_flags=list(CONFIG["compile_flags"]))
def contiguous(X, Z, block):
    M, N, stride_M, stride_N = T.const("M, N, stride_M, stride_N")
    X: T.StridedTensor[[M, N], [stride_M, stride_N], T.float32]
    Z: T.Tensor[[M, N], T.float32]
    with T.Kernel(M // block, N // block) as (bm, bn):
        for m, n in T.grid(block, block):
            Z[bm * block + m, bn * block + n] = X[bm * block + m, bn * block + n]


def build(problem: Problem) -> Callable[..., object]:
    return lambda x, z: contiguous(x.t(), z, CONFIG["block"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
