"""One block an SM takes row after row, and a warp loads whole rows ahead in bulk: loads never wait for a sum."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter003_one_barrier"
CONFIG = dict(blocks=132, threads=640, num_stages=6)
LOG2_E = 1.4426950408889634


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
    blocks, num_stages = CONFIG["blocks"], CONFIG["num_stages"]
    consumers = CONFIG["threads"] - 128  # without the loading warp and its three idle neighbours
    vectors, warps, waves = N // consumers // 8, consumers // 32, -(-M // blocks)

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "bfloat16"), Y: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(blocks, threads=CONFIG["threads"]) as block:
            stages = T.alloc_shared((num_stages, N), "bfloat16")
            peaks = T.alloc_shared((2, warps), "float32")
            totals = T.alloc_shared((2, warps), "float32")
            full = T.alloc_barrier([1] * num_stages)
            empty = T.alloc_barrier([warps] * num_stages)
            thread = T.get_thread_binding()
            if thread < 128:
                if thread < 32:
                    for wave in T.serial(waves):
                        if wave * blocks + block < M:
                            stage = wave % num_stages
                            T.mbarrier_wait_parity(empty[stage], ((wave // num_stages) & 1) ^ 1)
                            T.tma_copy(X[wave * blocks + block, 0:N], stages[stage, :], barrier=full[stage])
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[stage])
            else:
                own = thread - 128
                narrow = T.alloc_local((8,), "bfloat16")
                row = T.alloc_local((vectors * 8,), "float32")
                peak = T.alloc_local((1,), "float32")
                total = T.alloc_local((1,), "float32")
                factor = T.alloc_local((1,), "float32")
                for wave in T.serial(waves):
                    if wave * blocks + block < M:
                        stage = wave % num_stages
                        T.mbarrier_wait_parity(full[stage], (wave // num_stages) & 1)
                        for v in T.unroll(vectors):
                            for j in T.vectorized(8):
                                narrow[j] = stages[stage, (v * consumers + own) * 8 + j]
                            for j in T.unroll(8):
                                row[v * 8 + j] = T.cast(narrow[j], "float32")
                        exponentials(row, peak, total)
                        sum_of_warp(peak, total, peaks, totals, wave % 2, own)
                        if own % 32 == 0:
                            T.mbarrier_arrive(empty[stage])
                        T.sync_threads(1, consumers)
                        factor_of_row(peak, factor, peaks, totals, wave % 2, warps, own)
                        for v in T.unroll(vectors):
                            for j in T.vectorized(8):
                                narrow[j] = T.cast(row[v * 8 + j] * factor[0], "bfloat16")
                            for j in T.vectorized(8):
                                Y[wave * blocks + block, (v * consumers + own) * 8 + j] = narrow[j]

    return Program(
        kernel, pass_configs={"tl.disable_shared_memory_reuse": True, "tl.disable_thread_storage_sync": True}
    )


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
