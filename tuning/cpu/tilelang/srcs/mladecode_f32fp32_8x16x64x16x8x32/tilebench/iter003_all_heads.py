"""All heads take each token together: its row of the cache is read once for all."""

from math import sqrt

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter002_fast_math"
CONFIG = dict(compile_flags=("-O3", "-march=native", "-ffast-math"))


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
        with T.Kernel(B) as b:
            weights = T.alloc_local((H, pages * size), "float32")
            out = T.alloc_local((H, D), "float32")
            largest = T.alloc_local((H,), "float32")
            total = T.alloc_local((H,), "float32")
            page = T.alloc_local((1,), "int32")
            for h in T.serial(H):
                largest[h] = -3e38
                total[h] = 0.0
                for d in T.serial(D):
                    out[h, d] = 0.0
            for n in T.serial(lengths[b]):
                page[0] = table[b, n // size]
                for h in T.serial(H):
                    weights[h, n] = 0.0
                    for d in T.serial(D + R):
                        weights[h, n] += Q[b, h, d] * cache[page[0], n % size, d]
                    weights[h, n] /= sqrt(D + R)
                    largest[h] = T.max(largest[h], weights[h, n])
            for n in T.serial(lengths[b]):
                page[0] = table[b, n // size]
                for h in T.serial(H):
                    weights[h, n] = T.exp(weights[h, n] - largest[h])
                    total[h] += weights[h, n]
                    for d in T.serial(D):
                        out[h, d] += weights[h, n] * cache[page[0], n % size, d]
            for h in T.serial(H):
                for d in T.serial(D):
                    Out[b, h, d] = out[h, d] / total[h]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
