"""The plain form of TileLang's examples: 64 rows of W are unpacked into registers, and T.gemm multiplies them by all
16 rows of X."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_dequantise"
CONFIG = dict(block_M=16, block_N=64, block_K=128, num_stages=4, threads=128)


def build(problem: Problem) -> Program:
    M, N, K = problem.dims
    block_M, block_N, block_K = CONFIG["block_M"], CONFIG["block_N"], CONFIG["block_K"]

    @T.prim_func
    def main(
        X: T.Tensor((M, K), problem.input),
        packed: T.Tensor((N, K // 2), "uint8"),
        scales: T.Tensor((N, K // 128), problem.input),
        C: T.Tensor((M, N), problem.output),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=CONFIG["threads"]) as (bx, by):
            X_shared = T.alloc_shared((block_M, block_K), problem.input)
            packed_shared = T.alloc_shared((block_N, block_K // 2), "uint8")
            W_local = T.alloc_fragment((block_N, block_K), problem.input)
            C_local = T.alloc_fragment((block_N, block_M), problem.accumulator)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=CONFIG["num_stages"]):
                T.copy(X[by * block_M, k * block_K], X_shared)
                T.copy(packed[bx * block_N, k * block_K // 2], packed_shared)
                for i, j in T.Parallel(block_N, block_K):
                    nibble = (packed_shared[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15)
                    weight = T.cast(nibble, problem.input) - T.cast(8, problem.input)
                    W_local[i, j] = weight * scales[bx * block_N + i, k * block_K // 128]
                T.gemm(W_local, X_shared, C_local, transpose_B=True)
            for i, j in T.Parallel(block_N, block_M):
                C[by * block_M + j, bx * block_N + i] = C_local[i, j]

    return Program(main)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
