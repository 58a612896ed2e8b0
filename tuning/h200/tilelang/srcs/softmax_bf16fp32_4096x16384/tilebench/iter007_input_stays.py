"""The input is marked to leave the L2 last, so that the output leaves it first, as it comes."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter003_one_barrier"
CONFIG = dict(threads=512)
LOG2_E = 1.4426950408889634

FUNCTIONS = r"""
static __device__ __forceinline__ void load_to_stay(void* to, const void* from) {
  unsigned long long leaves_last;
  uint4 v;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(leaves_last));
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from), "l"(leaves_last));
  memcpy(to, &v, 16);
}
"""


@T.macro
def exponentials(row, peak, total):
    """Replace a thread's part of the row by its exponentials over its own largest value, and sum them."""
    peak[0] = row[0]
    for i in T.unroll(row.shape[0] - 1):
        peak[0] = T.max(peak[0], row[i + 1])
    total[0] = 0.0
    for i in T.unroll(row.shape[0]):
        row[i] = T.exp2(row[i] * LOG2_E - peak[0] * LOG2_E)
        total[0] += row[i]


@T.macro
def sum_of_warp(peak, total, peaks, totals, slot, own):
    """Leave a warp's largest value, and its sum over that, in the warp's slot."""
    highest = T.alloc_local((1,), "float32")
    highest[0] = T.warp_reduce_max(peak[0])
    total[0] = T.warp_reduce_sum(total[0] * T.exp2((peak[0] - highest[0]) * LOG2_E))
    if own % 32 == 0:
        peaks[slot, own // 32] = highest[0]
        totals[slot, own // 32] = total[0]


@T.macro
def factor_of_row(peak, factor, peaks, totals, slot, warps, own):
    """What a thread's exponentials are multiplied by: those of its own largest value become those of the row's."""
    highest = T.alloc_local((1,), "float32")
    theirs = T.alloc_local((1,), "float32")
    summed = T.alloc_local((1,), "float32")
    theirs[0] = peaks[slot, T.min(own % 32, warps - 1)]
    highest[0] = T.warp_reduce_max(theirs[0])
    summed[0] = 0.0
    if own % 32 < warps:
        summed[0] = totals[slot, own % 32] * T.exp2((theirs[0] - highest[0]) * LOG2_E)
    summed[0] = T.warp_reduce_sum(summed[0])
    factor[0] = T.exp2((peak[0] - highest[0]) * LOG2_E) / summed[0]


def build(problem: Problem) -> Program:
    M, N = problem.dims
    threads = CONFIG["threads"]
    vectors, warps = N // threads // 8, threads // 32

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "bfloat16"), Y: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(M, threads=threads, prelude=FUNCTIONS) as m:
            thread = T.get_thread_binding()
            narrow = T.alloc_local((8,), "bfloat16")
            row = T.alloc_local((vectors * 8,), "float32")
            peak = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            factor = T.alloc_local((1,), "float32")
            peaks = T.alloc_shared((1, warps), "float32")
            totals = T.alloc_shared((1, warps), "float32")
            for v in T.unroll(vectors):
                T.call_extern(
                    "handle", "load_to_stay", T.address_of(narrow[0]), T.address_of(X[m, (v * threads + thread) * 8])
                )
                for j in T.unroll(8):
                    row[v * 8 + j] = T.cast(narrow[j], "float32")
            exponentials(row, peak, total)
            sum_of_warp(peak, total, peaks, totals, 0, thread)
            T.sync_threads()
            factor_of_row(peak, factor, peaks, totals, 0, warps, thread)
            for v in T.unroll(vectors):
                for j in T.vectorized(8):
                    narrow[j] = T.cast(row[v * 8 + j] * factor[0], "bfloat16")
                for j in T.vectorized(8):
                    Y[m, (v * threads + thread) * 8 + j] = narrow[j]

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
