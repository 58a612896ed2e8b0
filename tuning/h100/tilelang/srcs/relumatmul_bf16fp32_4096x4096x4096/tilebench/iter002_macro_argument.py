"""An eager jit function that takes the function as a macro: one kernel text for any function of A."""

from collections.abc import Callable

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_prim_func"
CONFIG = dict(
    block_M=128,
    block_N=128,
    block_K=64,
    num_stages=3,
    threads=256,
    pass_configs={"tl.disable_warp_specialized": True},
)


@T.macro
def relu(x):
    return T.max(x, T.bfloat16(0))


@tilelang.jit(pass_configs=CONFIG["pass_configs"])
def gemm(A, B, C, function, block_M, block_N, block_K, stages, threads):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], T.bfloat16]
    B: T.Tensor[[K, N], T.bfloat16]
    C: T.Tensor[[M, N], T.bfloat16]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bn, bm):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        B_shared = T.alloc_shared((block_K, block_N), T.bfloat16)
        A_local = T.alloc_fragment((block_M, block_K), T.bfloat16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[bm * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bn * block_N], B_shared)
            T.copy(A_shared, A_local)
            for i, j in T.Parallel(block_M, block_K):
                A_local[i, j] = function(A_local[i, j])
            T.gemm(A_local, B_shared, C_local)
        T.copy(C_local, C[bm * block_M, bn * block_N])


def build(problem: Problem) -> Callable[..., object]:
    levers = CONFIG["block_M"], CONFIG["block_N"], CONFIG["block_K"], CONFIG["num_stages"], CONFIG["threads"]
    return lambda a, b, c: gemm(a, b, c, relu, *levers)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
