"""Eight blocks share the keys of a head, and the last of them to end adds up their parts."""

from math import e, log2, sqrt

import tilelang.language as T

from harness.iteration import Problem, Program, Workspace, bench_with, main, verify_with

PARENT = "iter001_one_block_a_head"
CONFIG = dict(rows=64, block_N=64, num_stages=3, threads=128, splits=8, min_blocks=1)
LEAST = -1.2676506002282294e30  # of a key that does not count: a power of two

FUNCTIONS = r"""
// Whether all other parts have been written, for the 128 threads that multiply. The last block leaves 0 to the next launch.
static __device__ __forceinline__ int is_last(int *counter, int *said, int parts) {
  __threadfence();
  asm volatile("bar.sync 8, 128;" ::: "memory");
  if (threadIdx.x % 128 == 0) {
    int last = atomicAdd(counter, 1) == parts - 1;
    if (last) atomicExch(counter, 0);
    *said = last;
  }
  asm volatile("bar.sync 8, 128;" ::: "memory");
  __threadfence();
  return *said;
}
"""


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
    splits = CONFIG["splits"]
    shared, to_log2 = H // G, log2(e) / sqrt(D)
    parts_shape, states_shape = (B, G, splits, shared, D), (B, G, splits, 2, shared)

    @T.prim_func
    def kernel(
        Q: T.Tensor((B, H, D), problem.input),
        K: T.Tensor((B * pages, size, G, D), problem.input),
        V: T.Tensor((B * pages, size, G, D), problem.input),
        table: T.Tensor((B, pages), "int32"),
        lengths: T.Tensor((B,), "int32"),
        Out: T.Tensor((B, H, D), problem.output),
        parts: T.Tensor(parts_shape, "float32"),
        states: T.Tensor(states_shape, "float32"),
        counters: T.Tensor((B, G), "int32"),
    ):
        with T.Kernel(splits, G, B, threads=threads, prelude=FUNCTIONS) as (split, g, b):
            T.annotate_min_blocks_per_sm(CONFIG["min_blocks"])
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
            first = T.alloc_var("int32")
            last = T.alloc_var("int32")
            larger = T.alloc_var("float32")
            own = T.alloc_var("float32")
            kept = T.alloc_var("float32")
            running = T.alloc_var("float32")
            divisor = T.alloc_var("float32")
            value = T.alloc_var("float32")
            said = T.alloc_shared((1,), "int32")
            thread = T.get_thread_binding()
            length = lengths[b]
            first = T.truncdiv(split * T.truncdiv(length, block_N), splits)  # of the whole blocks of keys
            last = T.truncdiv((split + 1) * T.truncdiv(length, block_N), splits)
            for i, j in T.Parallel(rows, D):
                Q_shared[i, j] = T.if_then_else(i < shared, Q[b, g * shared + T.min(i, shared - 1), j], 0)
            T.fence_proxy_async()
            T.clear(out)
            T.clear(total)
            T.fill(maximum, LEAST)
            for n in T.Pipelined(last - first, num_stages=CONFIG["num_stages"]):
                page = table[b, T.truncdiv((first + n) * block_N, size)]
                token = T.truncmod((first + n) * block_N, size)
                T.copy(K[page, token : token + block_N, g, 0:D], K_shared)
                T.copy(V[page, token : token + block_N, g, 0:D], V_shared)
                attend(Q_shared, K_shared, V_shared, scores, weights, out, state, block_N, to_log2)
            if (split == splits - 1) and (T.truncmod(length, block_N) > 0):  # a block that is not full: what lies beyond the length is not read
                left = length - T.truncdiv(length, block_N) * block_N
                page = table[b, T.truncdiv(T.truncdiv(length, block_N) * block_N, size)]
                token = T.truncmod(T.truncdiv(length, block_N) * block_N, size)
                for i, j in T.Parallel(block_N, D):
                    K_last[i, j] = T.if_then_else(i < left, K[page, token + T.min(i, left - 1), g, j], 0)
                    V_last[i, j] = T.if_then_else(i < left, V[page, token + T.min(i, left - 1), g, j], 0)
                T.fence_proxy_async()
                attend(Q_shared, K_last, V_last, scores, weights, out, state, left, to_log2)
            for i, j in T.Parallel(rows, D):
                if i < shared:
                    parts[b, g, split, i, j] = out[i, j]
            for i in T.Parallel(rows):
                if i < shared:
                    states[b, g, split, 0, i] = maximum[i]
                    states[b, g, split, 1, i] = total[i]
            if (
                T.call_extern("int32", "is_last", T.address_of(counters[b, g]), T.address_of(said[0]), splits) != 0
            ):
                if thread < D:
                    for i in T.serial(shared):
                        running = LEAST
                        divisor = 0.0
                        value = 0.0
                        for at in T.serial(splits):
                            larger = T.max(running, states[b, g, at, 0, i])
                            kept = T.exp2((running - larger) * to_log2)
                            own = T.exp2((states[b, g, at, 0, i] - larger) * to_log2)
                            divisor = divisor * kept + states[b, g, at, 1, i] * own
                            value = value * kept + parts[b, g, at, i, thread] * own
                            running = larger
                        Out[b, g * shared + i, thread] = value / divisor

    return Program(
        kernel,
        workspaces=(
            Workspace(parts_shape, "float32"),
            Workspace(states_shape, "float32"),
            Workspace((B, G), "int32"),
        ),
    )


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
