"""The kernel of TileLang's first example, 128x128x32 tiles and three stages: what a user gets without tuning."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=128, block_N=128, block_K=32, num_stages=3, threads=128)


def build(problem: Problem) -> Program:
    M, N, K = problem.dims
    block_M, block_N, block_K = CONFIG["block_M"], CONFIG["block_N"], CONFIG["block_K"]

    @T.prim_func
    def main(
        A: T.Tensor((M, K), problem.input),
        B: T.Tensor((K, N), problem.input),
        C: T.Tensor((M, N), problem.output),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=CONFIG["threads"]) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), problem.input)
            B_shared = T.alloc_shared((block_K, block_N), problem.input)
            C_local = T.alloc_fragment((block_M, block_N), problem.accumulator)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=CONFIG["num_stages"]):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return Program(main)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
