"""A block for each row in 16-byte vectors: a pass for each thread's largest value, and one for its exponentials over it."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_logsumexp"
CONFIG = dict(threads=160)
LOG2_E = 1.4426950408889634


@T.macro
def sum_of_warp(peak, total, peaks, totals, slot, own):
    """Leave a warp's largest value, and its sum of exponentials over that, in the warp's slot."""
    highest = T.alloc_local((1,), "float32")
    highest[0] = T.warp_reduce_max(peak[0])
    total[0] = T.warp_reduce_sum(total[0] * T.exp2((peak[0] - highest[0]) * LOG2_E))
    if own % 32 == 0:
        peaks[slot, own // 32] = highest[0]
        totals[slot, own // 32] = total[0]


@T.macro
def store_row(picked, loss, lse, m, peaks, totals, slot, warps, own):
    """Let the first warp merge the warps' pairs into log(sum(exp(row))); picked is the value of the row's class."""
    highest = T.alloc_local((1,), "float32")
    theirs = T.alloc_local((1,), "float32")
    summed = T.alloc_local((1,), "float32")
    if own < 32:
        theirs[0] = peaks[slot, T.min(own, warps - 1)]
        highest[0] = T.warp_reduce_max(theirs[0])
        summed[0] = 0.0
        if own < warps:
            summed[0] = totals[slot, own] * T.exp2((theirs[0] - highest[0]) * LOG2_E)
        summed[0] = T.warp_reduce_sum(summed[0])
        if own == 0:
            lse[m] = highest[0] + T.log(summed[0])
            loss[m] = highest[0] + T.log(summed[0]) - picked[0]


def build(problem: Problem) -> Program:
    M, N = problem.dims
    threads = CONFIG["threads"]
    vectors, warps = N // threads // 8, threads // 32

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "bfloat16"),
        target: T.Tensor((M,), "int64"),
        loss: T.Tensor((M,), "float32"),
        lse: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(M, threads=CONFIG["threads"]) as m:
            thread = T.get_thread_binding()
            narrow = T.alloc_local((8,), "bfloat16")
            picked = T.alloc_local((1,), "float32")
            peak = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            peaks = T.alloc_shared((1, warps), "float32")
            totals = T.alloc_shared((1, warps), "float32")
            if thread == 0:
                picked[0] = X[m, target[m]]
            peak[0] = -T.infinity("float32")
            for v in T.serial(vectors):
                for j in T.vectorized(8):
                    narrow[j] = X[m, (v * threads + thread) * 8 + j]
                for j in T.unroll(8):
                    peak[0] = T.max(peak[0], T.cast(narrow[j], "float32"))
            total[0] = 0.0
            for v in T.serial(vectors):
                for j in T.vectorized(8):
                    narrow[j] = X[m, (v * threads + thread) * 8 + j]
                for j in T.unroll(8):
                    total[0] += T.exp2((T.cast(narrow[j], "float32") - peak[0]) * LOG2_E)
            sum_of_warp(peak, total, peaks, totals, 0, thread)
            T.sync_threads()
            store_row(picked, loss, lse, m, peaks, totals, 0, warps, thread)

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
