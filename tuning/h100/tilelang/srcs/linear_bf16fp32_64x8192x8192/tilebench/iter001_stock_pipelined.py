"""64x64 tiles, 128 blocks for 132 SMs, in the plain form of TileLang's first example: what a user gets without
tuning."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=64, block_N=64, block_K=64, num_stages=3, threads=128)


def build(problem: Problem) -> Program:
    M, N, K = problem.dims
    block_M, block_N, block_K = CONFIG["block_M"], CONFIG["block_N"], CONFIG["block_K"]

    @T.prim_func
    def main(
        A: T.Tensor((M, K), problem.input),
        W: T.Tensor((N, K), problem.input),
        C: T.Tensor((M, N), problem.output),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=CONFIG["threads"]) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), problem.input)
            W_shared = T.alloc_shared((block_N, block_K), problem.input)
            C_local = T.alloc_fragment((block_M, block_N), problem.accumulator)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=CONFIG["num_stages"]):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(A_shared, W_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return Program(main)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
