"""The kernels before and after the main one: what each query brings, and dQ from the sums of float32."""

from math import e, log2
from typing import Any

import tilelang.language as T

from kernels.attention_backward.block import (
    ADDED,
    FINISHED,
    GROUPS,
    READY,
    ROWS,
    STATISTICS,
    GradientBlock,
)
from kernels.hopper import GROUP, wait_for_kernel_before

LANES = 4  # threads that share a row of a WGMMA accumulator; each has two of every eight columns
LOG2_E = log2(e)
COLUMNS = 8  # of a chunk: a thread has a float4 of it, two columns of a row and of the eighth row after that


@T.macro
def take_statistics(block: GradientBlock, O: Any, dO: Any, lse: Any, statistics: Any, at: Any) -> None:  # noqa: E741
    """The statistics of 64 queries."""
    depth = block.depth
    outputs = T.alloc_fragment((ROWS, depth), block.dtype)
    gradients = T.alloc_fragment((ROWS, depth), block.dtype)
    products = T.alloc_fragment((ROWS, depth), "float32")
    totals = T.alloc_fragment((ROWS,), "float32")
    batch, own, m = block.queries(at)
    T.copy(O[batch, own, m * ROWS : (m + 1) * ROWS, :], outputs)
    T.copy(dO[batch, own, m * ROWS : (m + 1) * ROWS, :], gradients)
    for i, j in T.Parallel(ROWS, depth):
        products[i, j] = T.cast(outputs[i, j], "float32") * T.cast(gradients[i, j], "float32")
    T.reduce_sum(products, totals, dim=1)
    for i in T.Parallel(ROWS):
        statistics[at, i] = lse[batch, own, m * ROWS + i] * LOG2_E
        statistics[at, ROWS + i] = totals[i]


@T.macro
def prepare(
    block: GradientBlock,
    O: Any,  # noqa: E741
    dO: Any,
    lse: Any,
    sums: Any,
    statistics: Any,
    counters: Any,
) -> None:
    """Statistics of 64 queries a block of threads, and zeros where their dQ will be summed up.

    With ``finish_within`` the launch before has left the zeros. With ``statistics_within`` those of the first heads.
    """
    with T.Kernel(block.all_heads * block.query_blocks, threads=2 * GROUP) as at:
        if block.statistics_within:
            if at < block.ahead * block.query_blocks:
                take_statistics(block, O, dO, lse, statistics, at)
            if T.get_thread_binding() == 0:
                counters[at, READY] = 0
        else:
            take_statistics(block, O, dO, lse, statistics, at)
        if not block.finish_within:
            for i in T.Parallel(ROWS * block.depth):
                sums[at, i] = 0.0


@T.macro
def finish_rows(block: GradientBlock, sums: Any, dQ: Any, at: Any) -> None:
    """dQ of 64 queries. Of each half the sums lie as registers hold them: [column // 8][thread][float4]."""
    chunks, words = block.half // COLUMNS, COLUMNS * 2
    thread = T.get_thread_binding()
    held = T.alloc_local((words,), "float32")
    row = T.alloc_local((COLUMNS,), block.dtype)
    batch, own, m = block.queries(at)
    for step in T.unroll(GROUPS * chunks * GROUP // LANES // (2 * GROUP)):
        index = step * 2 * GROUP + thread
        chunk, pair = index % (GROUPS * chunks), index // (GROUPS * chunks)
        for i in T.vectorized(words):
            held[i] = sums[at, chunk * GROUP * LANES + pair * words + i]
        for upper in T.unroll(2):
            for i in T.unroll(COLUMNS):
                row[i] = T.cast(held[i // 2 * 4 + 2 * upper + i % 2] * block.scale, block.dtype)
            query = m * ROWS + pair // COLUMNS * 2 * COLUMNS + upper * COLUMNS + pair % COLUMNS
            for i in T.vectorized(COLUMNS):
                dQ[batch, own, query, chunk * COLUMNS + i] = row[i]


@T.macro
def finish(block: GradientBlock, sums: Any, counters: Any, dQ: Any, dependent_launch: bool) -> None:
    """All of dQ; with ``finish_within`` what the main kernel has left, and zeros for the next launch."""
    with T.Kernel(block.all_heads * block.query_blocks, threads=2 * GROUP) as at:
        if dependent_launch:
            wait_for_kernel_before(let_next_start=False)
        if block.finish_within:
            if counters[at, FINISHED] == 0:
                finish_rows(block, sums, dQ, at)
                T.sync_threads()  # zeros go side by side, and not where each thread has read: that takes thrice as long
                for i in T.Parallel(ROWS * block.depth):
                    sums[at, i] = 0.0
            T.sync_threads()
            if T.get_thread_binding() == 0:
                counters[at, FINISHED] = 0
                counters[at, ADDED] = 0
        else:
            finish_rows(block, sums, dQ, at)


def workspaces(block: GradientBlock) -> tuple[tuple[tuple[int, int], str], ...]:
    """Shape and dtype, of each 64 queries: the sums of dQ, the statistics, and the counters."""
    number = block.all_heads * block.query_blocks
    sums, statistics = (number, ROWS * block.depth), (number, STATISTICS * ROWS)
    return (sums, "float32"), (statistics, "float32"), ((number, block.counter_words), "int32")
