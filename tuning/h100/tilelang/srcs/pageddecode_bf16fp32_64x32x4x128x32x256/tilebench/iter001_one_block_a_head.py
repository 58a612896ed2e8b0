"""A block for each head of keys of a sequence; the eight heads that share it are rows of one tile of 64."""

from math import e, log2, sqrt

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_varlen_attn"
CONFIG = dict(rows=64, block_N=64, num_stages=3, threads=128)
LEAST = -1.2676506002282294e30  # of a key that does not count: a power of two


@T.macro
def attend(Q_shared, keys, values, scores, weights, out, state, left, to_log2):
    """Add a block of keys, of which the first ``left`` are the sequence's, by an online softmax."""
    rows, size = scores.shape
    maximum, before, scale, sums, total = state
    T.gemm(Q_shared, keys, scores, transpose_B=True, clear_accum=True)
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
    T.gemm(weights, values, out)


def build(problem: Problem) -> Program:
    B, H, G, D, pages, size = problem.dims
    rows, block_N, threads = CONFIG["rows"], CONFIG["block_N"], CONFIG["threads"]
    shared, to_log2 = H // G, log2(e) / sqrt(D)

    @T.prim_func
    def kernel(
        Q: T.Tensor((B, H, D), problem.input),
        K: T.Tensor((B * pages, size, G, D), problem.input),
        V: T.Tensor((B * pages, size, G, D), problem.input),
        table: T.Tensor((B, pages), "int32"),
        lengths: T.Tensor((B,), "int32"),
        Out: T.Tensor((B, H, D), problem.output),
    ):
        with T.Kernel(G, B, threads=threads) as (g, b):
            Q_shared = T.alloc_shared((rows, D), problem.input)
            K_shared = T.alloc_shared((block_N, D), problem.input)
            V_shared = T.alloc_shared((block_N, D), problem.input)
            K_last = T.alloc_shared((block_N, D), problem.input)
            V_last = T.alloc_shared((block_N, D), problem.input)
            scores = T.alloc_fragment((rows, block_N), "float32")
            weights = T.alloc_fragment((rows, block_N), problem.input)
            out = T.alloc_fragment((rows, D), "float32")
            maximum = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            sums = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            state = (maximum, before, scale, sums, total)
            length = lengths[b]
            whole = T.truncdiv(length, block_N)
            for i, j in T.Parallel(rows, D):
                Q_shared[i, j] = T.if_then_else(i < shared, Q[b, g * shared + T.min(i, shared - 1), j], 0)
            T.fence_proxy_async()
            T.clear(out)
            T.clear(total)
            T.fill(maximum, LEAST)
            for n in T.Pipelined(whole, num_stages=CONFIG["num_stages"]):
                page = table[b, T.truncdiv(n * block_N, size)]
                token = T.truncmod(n * block_N, size)
                T.copy(K[page, token : token + block_N, g, 0:D], K_shared)
                T.copy(V[page, token : token + block_N, g, 0:D], V_shared)
                attend(Q_shared, K_shared, V_shared, scores, weights, out, state, block_N, to_log2)
            if whole * block_N < length:  # a block that is not full: what lies beyond the length is not read
                left = length - whole * block_N
                page = table[b, T.truncdiv(whole * block_N, size)]
                token = T.truncmod(whole * block_N, size)
                for i, j in T.Parallel(block_N, D):
                    K_last[i, j] = T.if_then_else(i < left, K[page, token + T.min(i, left - 1), g, j], 0)
                    V_last[i, j] = T.if_then_else(i < left, V[page, token + T.min(i, left - 1), g, j], 0)
                T.fence_proxy_async()
                attend(Q_shared, K_last, V_last, scores, weights, out, state, left, to_log2)
            for i, j in T.Parallel(rows, D):
                if i < shared:
                    Out[b, g * shared + i, j] = out[i, j] / total[i]

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
