"""A tile is transposed through shared memory; its rows begin in the same bank."""

import tilelang.language as T

PARENT = "iter000_torch_matmul"
CONFIG = dict(block=32)


def build(problem):
    M, N, K = problem.dims
    block = CONFIG["block"]

    @T.prim_func
    def main(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((K, N), "bfloat16"), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(N // block, M // block, threads=32) as (bx, by):
            tile = T.alloc_shared((block, block), "float32")
            lane = T.get_thread_binding(0)
            for row in T.serial(block):
                tile[row, lane] = T.cast(A[by * block + row, bx * block + lane], "float32")
            T.sync_threads()
            for row in T.serial(block):
                C[by * block + row, bx * block + lane] = T.cast(tile[lane, row], "bfloat16")

    return main
