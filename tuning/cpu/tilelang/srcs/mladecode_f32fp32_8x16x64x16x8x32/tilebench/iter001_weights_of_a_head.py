"""One head at a time: the weights of all its tokens, then the mean of their values."""

from math import sqrt

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_gather_then_sdpa"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    B, H, D, R, pages, size = problem.dims

    @T.prim_func
    def kernel(
        Q: T.Tensor((B, H, D + R), "float32"),
        cache: T.Tensor((B * pages, size, D + R), "float32"),
        table: T.Tensor((B, pages), "int32"),
        lengths: T.Tensor((B,), "int32"),
        Out: T.Tensor((B, H, D), "float32"),
    ):
        with T.Kernel(H, B) as (h, b):
            weights = T.alloc_local((pages * size,), "float32")
            out = T.alloc_local((D,), "float32")
            largest = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            largest[0] = -3e38
            for n in T.serial(lengths[b]):
                weights[n] = 0.0
                for d in T.serial(D + R):
                    weights[n] += Q[b, h, d] * cache[table[b, n // size], n % size, d]
                weights[n] /= sqrt(D + R)
                largest[0] = T.max(largest[0], weights[n])
            total[0] = 0.0
            for d in T.serial(D):
                out[d] = 0.0
            for n in T.serial(lengths[b]):
                weights[n] = T.exp(weights[n] - largest[0])
                total[0] += weights[n]
                for d in T.serial(D):
                    out[d] += weights[n] * cache[table[b, n // size], n % size, d]
            for d in T.serial(D):
                Out[b, h, d] = out[d] / total[0]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
