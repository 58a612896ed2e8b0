"""128x128 tiles in the plain form of TileLang's first example; each block goes through the ends of the experts' rows
to find its own."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_grouped_mm"
CONFIG = dict(block_M=128, block_N=128, block_K=64, num_stages=3, threads=256)


def build(problem: Problem) -> Program:
    M, N, K, E = problem.dims
    block_M, block_N, block_K = CONFIG["block_M"], CONFIG["block_N"], CONFIG["block_K"]

    @T.prim_func
    def main(
        A: T.Tensor((M, K), problem.input),
        W: T.Tensor((E, N, K), problem.input),
        ends: T.Tensor((E,), "int32"),
        C: T.Tensor((M, N), problem.output),
    ):
        with T.Kernel(T.ceildiv(N, block_N), M // block_M + E, threads=CONFIG["threads"]) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), problem.input)
            W_shared = T.alloc_shared((block_N, block_K), problem.input)
            C_local = T.alloc_fragment((block_M, block_N), problem.accumulator)
            expert = T.alloc_var("int32", init=0)
            first = T.alloc_var("int32", init=0)
            last = T.alloc_var("int32", init=0)
            tile_rows = T.alloc_var("int32", init=0)  # of the experts so far
            start = T.alloc_var("int32", init=0)  # of the next expert
            for e in T.serial(E):
                end = ends[e]
                if (by >= tile_rows) and (by < tile_rows + T.ceildiv(end - start, block_M)):
                    expert = e
                    first = start + (by - tile_rows) * block_M
                    last = end
                tile_rows += T.ceildiv(end - start, block_M)
                start = end
            steps = T.if_then_else(first < last, K // block_K, 0)  # none beyond the last tile
            T.clear(C_local)
            for k in T.Pipelined(steps, num_stages=CONFIG["num_stages"]):
                T.copy(A[first : first + block_M, k * block_K : (k + 1) * block_K], A_shared)
                T.copy(W[expert, bx * block_N : (bx + 1) * block_N, k * block_K : (k + 1) * block_K], W_shared)
                T.gemm(A_shared, W_shared, C_local, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                if first + i < last:
                    C[first + i, bx * block_N + j] = C_local[i, j]

    return Program(main)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
