"""The heads that share a head of keys take each token together: a page is looked up once for all."""

from math import sqrt

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter002_fast_math"
CONFIG = dict(compile_flags=("-O3", "-march=native", "-ffast-math"))


def build(problem: Problem) -> Program:
    B, H, G, D, pages, size = problem.dims
    shared = H // G

    @T.prim_func
    def kernel(
        Q: T.Tensor((B, H, D), "float32"),
        K: T.Tensor((B * pages, size, G, D), "float32"),
        V: T.Tensor((B * pages, size, G, D), "float32"),
        table: T.Tensor((B, pages), "int32"),
        lengths: T.Tensor((B,), "int32"),
        Out: T.Tensor((B, H, D), "float32"),
    ):
        with T.Kernel(G, B) as (g, b):
            weights = T.alloc_local((shared, pages * size), "float32")
            out = T.alloc_local((shared, D), "float32")
            largest = T.alloc_local((shared,), "float32")
            total = T.alloc_local((shared,), "float32")
            page = T.alloc_local((1,), "int32")
            for i in T.serial(shared):
                largest[i] = -3e38
                total[i] = 0.0
                for d in T.serial(D):
                    out[i, d] = 0.0
            for n in T.serial(lengths[b]):
                page[0] = table[b, n // size]
                for i in T.serial(shared):
                    weights[i, n] = 0.0
                    for d in T.serial(D):
                        weights[i, n] += Q[b, g * shared + i, d] * K[page[0], n % size, g, d]
                    weights[i, n] /= sqrt(D)
                    largest[i] = T.max(largest[i], weights[i, n])
            for n in T.serial(lengths[b]):
                page[0] = table[b, n // size]
                for i in T.serial(shared):
                    weights[i, n] = T.exp(weights[i, n] - largest[i])
                    total[i] += weights[i, n]
                    for d in T.serial(D):
                        out[i, d] += weights[i, n] * V[page[0], n % size, g, d]
            for i in T.serial(shared):
                for d in T.serial(D):
                    Out[b, g * shared + i, d] = out[i, d] / total[i]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
