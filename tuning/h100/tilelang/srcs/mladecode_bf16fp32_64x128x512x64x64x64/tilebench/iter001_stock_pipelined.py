"""A block for each 64 heads of a sequence, in the plain form: two warp groups divide scores and output by columns."""

from math import e, log2, sqrt

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_gather_then_sdpa"
CONFIG = dict(rows=64, block_N=32, num_stages=2, threads=256)
LEAST = -1.2676506002282294e30  # of a key that does not count: a power of two


@T.macro
def attend(queries, keys, scores, weights, out, state, left, to_log2):
    """Add a block of keys, of which the first ``left`` are the sequence's, by an online softmax."""
    rows, size = scores.shape
    maximum, before, scale, sums, total = state
    T.gemm(queries[0], keys[0], scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
    T.gemm(queries[1], keys[1], scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
    for i, j in T.Parallel(rows, size):
        scores[i, j] = T.if_then_else(j < left, scores[i, j], LEAST)
    T.copy(maximum, before)
    T.reduce_max(scores, maximum, dim=1, clear=False)
    for i in T.Parallel(rows):
        scale[i] = T.exp2((before[i] - maximum[i]) * to_log2)
    for i, j in T.Parallel(rows, size):
        scores[i, j] = T.exp2((scores[i, j] - maximum[i]) * to_log2)
    T.reduce_sum(scores, sums, dim=1)
    for i in T.Parallel(rows):
        total[i] = total[i] * scale[i] + sums[i]
    T.copy(scores, weights)
    for i, j in T.Parallel(rows, out.shape[1]):
        out[i, j] *= scale[i]
    T.gemm(weights, keys[0], out, policy=T.GemmWarpPolicy.FullCol)


def build(problem: Problem) -> Program:
    B, H, D, R, pages, size = problem.dims
    rows, block_N = CONFIG["rows"], CONFIG["block_N"]
    to_log2 = log2(e) / sqrt(D + R)

    @T.prim_func
    def kernel(
        Q: T.Tensor((B, H, D + R), problem.input),
        cache: T.Tensor((B * pages, size, D + R), problem.input),
        table: T.Tensor((B, pages), "int32"),
        lengths: T.Tensor((B,), "int32"),
        Out: T.Tensor((B, H, D), problem.output),
    ):
        with T.Kernel(H // rows, B, threads=CONFIG["threads"]) as (tile, b):
            Q_shared = T.alloc_shared((rows, D), problem.input)
            Q_rest = T.alloc_shared((rows, R), problem.input)
            K_shared = T.alloc_shared((block_N, D), problem.input)
            K_rest = T.alloc_shared((block_N, R), problem.input)
            K_last = T.alloc_shared((block_N, D), problem.input)
            rest_last = T.alloc_shared((block_N, R), problem.input)
            weights = T.alloc_shared((rows, block_N), problem.input)
            scores = T.alloc_fragment((rows, block_N), "float32")
            out = T.alloc_fragment((rows, D), "float32")
            maximum = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            sums = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            state = (maximum, before, scale, sums, total)
            length = lengths[b]
            whole = T.truncdiv(length, block_N)
            T.copy(Q[b, tile * rows : (tile + 1) * rows, 0:D], Q_shared)
            T.copy(Q[b, tile * rows : (tile + 1) * rows, D : D + R], Q_rest)
            T.clear(out)
            T.clear(total)
            T.fill(maximum, LEAST)
            for n in T.Pipelined(whole, num_stages=CONFIG["num_stages"]):
                page = table[b, T.truncdiv(n * block_N, size)]
                token = T.truncmod(n * block_N, size)
                T.copy(cache[page, token : token + block_N, 0:D], K_shared)
                T.copy(cache[page, token : token + block_N, D : D + R], K_rest)
                attend((Q_shared, Q_rest), (K_shared, K_rest), scores, weights, out, state, block_N, to_log2)
            if whole * block_N < length:  # a block that is not full: what lies beyond the length is not read
                left = length - whole * block_N
                page = table[b, T.truncdiv(whole * block_N, size)]
                token = T.truncmod(whole * block_N, size)
                for i, j in T.Parallel(block_N, D):
                    K_last[i, j] = T.if_then_else(i < left, cache[page, token + T.min(i, left - 1), j], 0)
                for i, j in T.Parallel(block_N, R):
                    rest_last[i, j] = T.if_then_else(i < left, cache[page, token + T.min(i, left - 1), D + j], 0)
                T.fence_proxy_async()
                attend((Q_shared, Q_rest), (K_last, rest_last), scores, weights, out, state, left, to_log2)
            for i, j in T.Parallel(rows, D):
                Out[b, tile * rows + i, j] = out[i, j] / total[i]

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
