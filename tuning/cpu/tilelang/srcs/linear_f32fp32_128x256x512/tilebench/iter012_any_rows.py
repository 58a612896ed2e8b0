"""Any number of rows by one kernel: tiles of 4x4 dot products, and the rows that are left one at a time."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=4, block_N=4, vector_width=16, compile_flags=("-O3", "-march=native", "-ffast-math"))


def build(problem: Problem) -> Program:
    _, N, K = problem.dims
    M = T.dynamic("M")
    block_M, block_N, vector_width = CONFIG["block_M"], CONFIG["block_N"], CONFIG["vector_width"]

    @T.macro
    def tile(A: T.Tensor, W: T.Tensor, C: T.Tensor, rows: int, m: int, n: int):
        partial = T.alloc_local((rows, block_N, vector_width), "float32")
        T.clear(partial)
        for k in T.serial(K // vector_width):
            for i, j in T.grid(rows, block_N):
                for lane in T.serial(vector_width):
                    partial[i, j, lane] += A[m + i, k * vector_width + lane] * W[n + j, k * vector_width + lane]
        for i, j in T.grid(rows, block_N):
            C[m + i, n + j] = 0.0
            for lane in T.serial(vector_width):
                C[m + i, n + j] += partial[i, j, lane]

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        W: T.Tensor((N, K), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(N // block_N) as bn:
            for bm in T.serial(M // block_M):
                tile(A, W, C, block_M, bm * block_M, bn * block_N)
            for m in T.serial(M % block_M):
                tile(A, W, C, 1, M // block_M * block_M + m, bn * block_N)

    return Program(kernel, compile_flags=CONFIG["compile_flags"], dynamic=("M",))


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
