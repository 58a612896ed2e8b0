"""Each query finds the start of its sequence, then takes the tokens from there up to itself."""

from math import sqrt

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_varlen_attn"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    B, H, G, N, L, D = problem.dims
    shared = H // G

    @T.prim_func
    def kernel(
        Q: T.Tensor((N, H, D), "float32"),
        K: T.Tensor((N, G, D), "float32"),
        V: T.Tensor((N, G, D), "float32"),
        starts: T.Tensor((B + 1,), "int32"),
        Out: T.Tensor((N, H, D), "float32"),
    ):
        with T.Kernel(H, N) as (h, m):
            weights = T.alloc_local((L,), "float32")
            out = T.alloc_local((D,), "float32")
            largest = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            start = T.alloc_local((1,), "int32")
            start[0] = 0
            for b in T.serial(B):
                if starts[b] <= m:
                    start[0] = starts[b]
            largest[0] = -3e38
            for n in T.serial(m + 1 - start[0]):
                weights[n] = 0.0
                for d in T.serial(D):
                    weights[n] += Q[m, h, d] * K[start[0] + n, h // shared, d]
                weights[n] /= sqrt(D)
                largest[0] = T.max(largest[0], weights[n])
            total[0] = 0.0
            for d in T.serial(D):
                out[d] = 0.0
            for n in T.serial(m + 1 - start[0]):
                weights[n] = T.exp(weights[n] - largest[0])
                total[0] += weights[n]
                for d in T.serial(D):
                    out[d] += weights[n] * V[start[0] + n, h // shared, d]
            for d in T.serial(D):
                Out[m, h, d] = out[d] / total[0]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
