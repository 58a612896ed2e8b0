"""Blocks that run together write to the same rows of Z, where they read from the same rows of X before."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter004_sixteen_bytes"
CONFIG = dict(block=64, threads=256, min_blocks=6)


def build(problem: Problem) -> Program:
    M, N = problem.dims
    block, threads = CONFIG["block"], CONFIG["threads"]
    vectors = block // 4  # of a row of a tile
    times = vectors * vectors // threads  # a thread turns 4 x 4 numbers at a time, in its registers

    @T.prim_func
    def kernel(X: T.Tensor((N, M), "float32"), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(N // block, M // block, threads=threads) as (bn, bm):
            T.annotate_min_blocks_per_sm(CONFIG["min_blocks"])
            thread = T.get_thread_binding()
            tile = T.alloc_shared((block * block,), "float32")
            own = T.alloc_local((16 * times,), "float32")
            row = T.alloc_local((4,), "float32")
            for t in T.unroll(times):
                n, m = (t * threads + thread) // vectors, thread % vectors
                for i in T.unroll(4):
                    for j in T.vectorized(4):
                        own[t * 16 + i * 4 + j] = X[bn * block + n * 4 + i, bm * block + m * 4 + j]
            for t in T.unroll(times):
                n, m = (t * threads + thread) // vectors, thread % vectors
                for j in T.unroll(4):
                    for i in T.unroll(4):
                        row[i] = own[t * 16 + i * 4 + j]
                    for i in T.vectorized(4):  # swizzled, so that the lanes of a warp meet no bank twice
                        tile[(m * 4 + j) * block + (n ^ m) % vectors * 4 + i] = row[i]
            T.sync_threads()
            for t in T.unroll(times * 4):
                m, n = (t * threads + thread) // vectors, thread % vectors
                for i in T.vectorized(4):
                    row[i] = tile[m * block + (n ^ m // 4) * 4 + i]
                for i in T.vectorized(4):
                    Z[bm * block + m, bn * block + n * 4 + i] = row[i]

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
