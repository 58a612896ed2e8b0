"""Each row in the registers of a block: two histograms of 8 bits find the threshold, and a bitonic network sorts."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_topk"
CONFIG = dict(threads=512)


@T.macro
def load_keys(X_words, m, keys, thread, threads):
    """Two 16-bit keys a word; a larger value has the larger key: all bits of a negative one are inverted."""
    for v in T.unroll(keys.shape[0] // 4):
        for j in T.vectorized(4):
            keys[v * 4 + j] = X_words[m, (v * threads + thread) * 4 + j]
    for i in T.unroll(keys.shape[0]):
        keys[i] = keys[i] ^ (((keys[i] >> 15) & T.uint32(0x00010001)) * T.uint32(0x7FFF) + T.uint32(0x80008000))


@T.macro
def find_bin(counts, digit, found, thread, wanted):
    """Leave the bin of the wanted-th largest key in found[digit, 0], and how many of its keys are wanted."""
    if thread < 32:
        own = T.alloc_local((1,), "int32")
        above = T.alloc_local((1,), "int32")
        received = T.alloc_local((1,), "int32")
        own[0] = 0
        for i in T.unroll(8):
            own[0] += counts[digit, thread * 8 + i]
        above[0] = own[0]
        for step in T.unroll(5):
            received[0] = T.shfl_down(above[0], 1 << step)
            if thread + (1 << step) < 32:
                above[0] += received[0]
        above[0] -= own[0]
        for i in T.serial(8):
            if T.And(above[0] < wanted, wanted <= above[0] + counts[digit, thread * 8 + 7 - i]):
                found[digit, 0] = thread * 8 + 7 - i
                found[digit, 1] = wanted - above[0]
            above[0] += counts[digit, thread * 8 + 7 - i]
    T.sync_threads()


@T.macro
def find_threshold(keys, threshold, thread, threads, K):
    """The K-th largest key, by a histogram of its upper 8 bits, and of the lower 8 bits of the keys in that bin."""
    counts = T.alloc_shared((2, 256), "int32")
    found = T.alloc_shared((2, 2), "int32")
    for i in T.serial(512 // threads):
        counts[(i * threads + thread) // 256, (i * threads + thread) % 256] = 0
    T.sync_threads()
    for i in T.unroll(keys.shape[0]):
        for half in T.unroll(2):
            T.atomic_add(counts[0, T.cast((keys[i] >> (half * 16 + 8)) & T.uint32(0xFF), "int32")], 1)
    T.sync_threads()
    find_bin(counts, 0, found, thread, K)
    for i in T.unroll(keys.shape[0]):
        for half in T.unroll(2):
            if T.cast((keys[i] >> (half * 16 + 8)) & T.uint32(0xFF), "int32") == found[0, 0]:
                T.atomic_add(counts[1, T.cast((keys[i] >> (half * 16)) & T.uint32(0xFF), "int32")], 1)
    T.sync_threads()
    find_bin(counts, 1, found, thread, found[0, 1])
    threshold[0] = T.cast(found[0, 0] * 256 + found[1, 0], "uint32")


@T.macro
def collect(keys, threshold, kept, thread, threads, K):
    """Keep each key above the threshold and as many equal ones as make K, with their places in the lower 16 bits."""
    taken = T.alloc_shared((2,), "int32")
    slot = T.alloc_local((1,), "int32")
    key = T.alloc_local((1,), "uint32")
    if thread < 2:
        taken[thread] = 0
    T.sync_threads()
    for i in T.unroll(keys.shape[0]):
        for half in T.unroll(2):
            key[0] = (keys[i] >> (half * 16)) & T.uint32(0xFFFF)
            if key[0] > threshold[0]:
                slot[0] = T.atomic_add(taken[0], 1, return_prev=True)
                kept[slot[0]] = (key[0] << 16) | T.cast(
                    ((i // 4 * threads + thread) * 4 + i % 4) * 2 + half, "uint32"
                )
    T.sync_threads()
    for i in T.unroll(keys.shape[0]):
        for half in T.unroll(2):
            key[0] = (keys[i] >> (half * 16)) & T.uint32(0xFFFF)
            if key[0] == threshold[0]:
                slot[0] = taken[0] + T.atomic_add(taken[1], 1, return_prev=True)
                if slot[0] < K:
                    kept[slot[0]] = (key[0] << 16) | T.cast(
                        ((i // 4 * threads + thread) * 4 + i % 4) * 2 + half, "uint32"
                    )
    T.sync_threads()


@T.macro
def store_sorted(kept, V_bits, indices, m, thread, K):
    """Sort by a bitonic network in shared memory, a barrier for each step."""
    first = T.alloc_local((2,), "uint32")
    low = T.alloc_local((1,), "int32")
    for grown in T.serial(K.bit_length() - 1):
        for back in T.serial(grown + 1):
            if thread < K // 2:
                low[0] = (thread >> (grown - back)) * (2 << (grown - back)) + (thread & ((1 << (grown - back)) - 1))
                first[0] = kept[low[0]]
                first[1] = kept[low[0] + (1 << (grown - back))]
                if (first[0] < first[1]) == ((low[0] & (2 << grown)) == 0):
                    kept[low[0]] = first[1]
                    kept[low[0] + (1 << (grown - back))] = first[0]
            T.sync_threads()
    if thread < K:
        V_bits[m, thread] = T.cast(
            kept[thread] >> 16 ^ (T.uint32(0xFFFF) - (kept[thread] >> 31) * T.uint32(0x7FFF)), "uint16"
        )
        indices[m, thread] = T.cast(kept[thread] & T.uint32(0xFFFF), "int64")


def build(problem: Problem) -> Program:
    M, N, K = problem.dims
    threads = CONFIG["threads"]

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "bfloat16"),
        values: T.Tensor((M, K), "bfloat16"),
        indices: T.Tensor((M, K), "int64"),
    ):
        with T.Kernel(M, threads=CONFIG["threads"]) as m:
            X_words = T.view(X, (M, N // 2), "uint32")
            V_bits = T.view(values, (M, K), "uint16")
            thread = T.get_thread_binding()
            keys = T.alloc_local((N // threads // 2,), "uint32")
            threshold = T.alloc_local((1,), "uint32")
            kept = T.alloc_shared((K,), "uint32")
            load_keys(X_words, m, keys, thread, threads)
            find_threshold(keys, threshold, thread, threads, K)
            collect(keys, threshold, kept, thread, threads, K)
            store_sorted(kept, V_bits, indices, m, thread, K)

    # Its barriers stand where they are needed; else TileLang puts two around each atomic.
    return Program(kernel, pass_configs={"tl.disable_thread_storage_sync": True, "tl.disable_shared_memory_reuse": True})


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
