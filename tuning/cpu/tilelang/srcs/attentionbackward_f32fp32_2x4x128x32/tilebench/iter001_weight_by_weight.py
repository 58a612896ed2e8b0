"""A weight and its gradient at a time, and from them a row of each output, in plain loops."""

from math import sqrt

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_sdpa_backward"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    B, H, S, D = problem.dims

    @T.prim_func
    def kernel(
        Q: T.Tensor((B, H, S, D), "float32"),
        K: T.Tensor((B, H, S, D), "float32"),
        V: T.Tensor((B, H, S, D), "float32"),
        O: T.Tensor((B, H, S, D), "float32"),  # noqa: E741
        dO: T.Tensor((B, H, S, D), "float32"),
        lse: T.Tensor((B, H, S), "float32"),
        dQ: T.Tensor((B, H, S, D), "float32"),
        dK: T.Tensor((B, H, S, D), "float32"),
        dV: T.Tensor((B, H, S, D), "float32"),
    ):
        with T.Kernel(H, B) as (h, b):
            score = T.alloc_local((1,), "float32")
            weight = T.alloc_local((1,), "float32")
            mean = T.alloc_local((1,), "float32")
            for n, d in T.grid(S, D):
                dK[b, h, n, d] = 0.0
                dV[b, h, n, d] = 0.0
            for m in T.serial(S):
                mean[0] = 0.0
                for d in T.serial(D):
                    mean[0] += dO[b, h, m, d] * O[b, h, m, d]
                    dQ[b, h, m, d] = 0.0
                for n in T.serial(m + 1):
                    score[0] = 0.0
                    for d in T.serial(D):
                        score[0] += Q[b, h, m, d] * K[b, h, n, d]
                    weight[0] = T.exp(score[0] / sqrt(D) - lse[b, h, m])
                    score[0] = 0.0 - mean[0]
                    for d in T.serial(D):
                        score[0] += dO[b, h, m, d] * V[b, h, n, d]
                    score[0] *= weight[0] / sqrt(D)
                    for d in T.serial(D):
                        dQ[b, h, m, d] += score[0] * K[b, h, n, d]
                        dK[b, h, n, d] += score[0] * Q[b, h, m, d]
                        dV[b, h, n, d] += weight[0] * dO[b, h, m, d]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
