"""128 blocks take row after row: a warp loads whole rows ahead in bulk, and each stage has five warps of its own."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter005_fast_exponential"
CONFIG = dict(blocks=128, threads=608, groups=3)
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
    blocks, groups = CONFIG["blocks"], CONFIG["groups"]
    size = (CONFIG["threads"] - 128) // groups  # threads of a group
    vectors, warps, waves = N // size // 8, size // 32, -(-M // blocks)

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "bfloat16"),
        target: T.Tensor((M,), "int64"),
        loss: T.Tensor((M,), "float32"),
        lse: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(blocks, threads=CONFIG["threads"]) as block:
            stages = T.alloc_shared((groups, N), "bfloat16")
            peaks = T.alloc_shared((groups * 2, warps), "float32")
            totals = T.alloc_shared((groups * 2, warps), "float32")
            full = T.alloc_barrier([1] * groups)
            empty = T.alloc_barrier([warps] * groups)
            thread = T.get_thread_binding()
            if thread < 128:
                if thread < 32:
                    for wave in T.serial(waves):
                        if wave * blocks + block < M:
                            stage = wave % groups
                            T.mbarrier_wait_parity(empty[stage], ((wave // groups) & 1) ^ 1)
                            T.tma_copy(X[wave * blocks + block, 0:N], stages[stage, :], barrier=full[stage])
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[stage])
            else:
                group = (thread - 128) // size
                own = (thread - 128) % size
                narrow = T.alloc_local((8,), "bfloat16")
                picked = T.alloc_local((1,), "float32")
                peak = T.alloc_local((1,), "float32")
                before = T.alloc_local((1,), "float32")
                total = T.alloc_local((1,), "float32")
                for turn in T.serial(-(-waves // groups)):
                    if (turn * groups + group) * blocks + block < M:
                        m = (turn * groups + group) * blocks + block
                        if own == 0:
                            picked[0] = X[m, target[m]]
                        T.mbarrier_wait_parity(full[group], turn & 1)
                        peak[0] = -1e30
                        total[0] = 0.0
                        for v in T.unroll(vectors):
                            for j in T.vectorized(8):
                                narrow[j] = stages[group, (v * size + own) * 8 + j]
                            before[0] = peak[0]
                            for j in T.unroll(8):
                                peak[0] = T.max(peak[0], T.cast(narrow[j], "float32"))
                            total[0] *= T.exp2((before[0] - peak[0]) * LOG2_E)
                            for j in T.unroll(8):
                                total[0] += T.exp2((T.cast(narrow[j], "float32") - peak[0]) * LOG2_E)
                        sum_of_warp(peak, total, peaks, totals, group * 2 + turn % 2, own)
                        if own % 32 == 0:
                            T.mbarrier_arrive(empty[group])
                        T.sync_threads(1 + group, size)
                        store_row(picked, loss, lse, m, peaks, totals, group * 2 + turn % 2, warps, own)

    return Program(
        kernel,
        pass_configs={
            "tl.enable_fast_math": True,
            "tl.disable_shared_memory_reuse": True,
            "tl.disable_thread_storage_sync": True,  # TileLang's own barriers would make all groups wait for each other
        },
    )


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
