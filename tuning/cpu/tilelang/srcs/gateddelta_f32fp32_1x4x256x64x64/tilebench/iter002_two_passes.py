"""Two passes over the state for each token: the decay is part of the update, and the output is read on the way."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter001_token_by_token"
CONFIG = dict(compile_flags=("-O3", "-march=native"))


def build(problem: Problem) -> Program:
    B, H, S, K, V = problem.dims

    @T.prim_func
    def kernel(
        Q: T.Tensor((B, S, H, K), "float32"),
        Keys: T.Tensor((B, S, H, K), "float32"),
        Values: T.Tensor((B, S, H, V), "float32"),
        decay: T.Tensor((B, S, H), "float32"),
        rate: T.Tensor((B, S, H), "float32"),
        Out: T.Tensor((B, S, H, V), "float32"),
        State: T.Tensor((B, H, K, V), "float32"),
    ):
        with T.Kernel(H, B) as (h, b):
            state = T.alloc_local((K, V), "float32")
            added = T.alloc_local((V,), "float32")
            out = T.alloc_local((V,), "float32")
            left = T.alloc_local((1,), "float32")
            for k in T.serial(K):
                for v in T.serial(V):
                    state[k, v] = 0.0
            for t in T.serial(S):
                left[0] = T.exp(-decay[b, t, h])
                for v in T.serial(V):
                    added[v] = 0.0
                    out[v] = 0.0
                for k in T.serial(K):
                    for v in T.serial(V):
                        added[v] += Keys[b, t, h, k] * state[k, v]
                for v in T.serial(V):
                    added[v] = rate[b, t, h] * (Values[b, t, h, v] - left[0] * added[v])
                for k in T.serial(K):
                    for v in T.serial(V):
                        state[k, v] = left[0] * state[k, v] + Keys[b, t, h, k] * added[v]
                        out[v] += Q[b, t, h, k] * state[k, v]
                for v in T.serial(V):
                    Out[b, t, h, v] = out[v]
            for k in T.serial(K):
                for v in T.serial(V):
                    State[b, h, k, v] = state[k, v]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
