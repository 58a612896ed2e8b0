"""Statistics that the main kernel computes: warps beside the producer take the queries of later heads."""

from typing import Any

import tilelang.language as T

from kernels.attention_backward.block import BLOCK_N, READY, ROWS, WARP, GradientBlock
from kernels.attention_backward.ends import LOG2_E
from kernels.hopper import GROUP
from kernels.operands import ceildiv

WARPS = GROUP // WARP - 1  # beside the producer
QUERIES = 2 * BLOCK_N  # of a block of threads: so half of the blocks take all

STATISTICS_FUNCTIONS = r"""
// Bring queries into the L2 cache: the registers of these warps hold too few loads to wait for device memory.
static __device__ __forceinline__ void bring_queries(const void *queries, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(queries), "r"(bytes) : "memory");
}
// Wait until so many warps have been counted. Loads by TMA then see what those have stored.
static __device__ __forceinline__ void await_statistics(const int *counter, int warps) {
  while (*static_cast<const volatile int *>(counter) < warps) {}
  __threadfence();
  asm volatile("fence.proxy.async;" ::: "memory");
}
"""


@T.macro
def bring(block: GradientBlock, tensor: Any, head: Any, first: Any, count: Any) -> None:
    T.call_extern(
        "handle",
        "bring_queries",
        T.access_ptr(tensor[head // block.heads, head % block.heads, first, 0], "r"),
        count * block.depth * 2,
    )


@T.macro
def multiply(
    block: GradientBlock,
    O: Any,  # noqa: E741
    dO: Any,
    statistics: Any,
    head: Any,
    query: Any,
    lane: Any,
) -> None:
    """The product of a query's output and its gradient. One warp does this."""
    batch, own, width = head // block.heads, head % block.heads, block.depth // WARP
    outputs = T.alloc_local((width,), block.dtype)
    gradients = T.alloc_local((width,), block.dtype)
    total = T.alloc_local((1,), "float32")
    for j in T.vectorized(width):
        outputs[j] = O[batch, own, query, lane * width + j]
    for j in T.vectorized(width):
        gradients[j] = dO[batch, own, query, lane * width + j]
    total[0] = 0.0
    for j in T.unroll(width):
        total[0] += T.cast(outputs[j], "float32") * T.cast(gradients[j], "float32")
    total[0] = T.warp_reduce_sum(total[0])
    if lane == 0:
        statistics[head * block.query_blocks + query // ROWS, ROWS + query % ROWS] = total[0]


@T.macro
def take_logarithm(block: GradientBlock, lse: Any, statistics: Any, head: Any, query: Any) -> None:
    log2_sum = lse[head // block.heads, head % block.heads, query] * LOG2_E
    statistics[head * block.query_blocks + query // ROWS, query % ROWS] = log2_sum


@T.macro
def compute_statistics(
    block: GradientBlock,
    O: Any,  # noqa: E741
    dO: Any,
    lse: Any,
    statistics: Any,
    counters: Any,
    place: tuple[Any, Any],
    thread: Any,
) -> None:
    """Statistics of some queries of a later head. The longer half of the blocks do this."""
    row, head = place
    later, first = head + block.ahead, row * QUERIES
    own, warp, lane = thread - WARP, thread // WARP - 1, thread % WARP
    if later < block.all_heads and row * 2 < block.rows:
        count = T.min(QUERIES, block.tokens - first)
        if own == 0:
            bring(block, O, later, first, count)
            bring(block, dO, later, first, count)
        for i in T.serial(ceildiv(QUERIES, WARPS)):
            if i * WARPS + warp < count:
                multiply(block, O, dO, statistics, later, first + i * WARPS + warp, lane)
        for i in T.serial(ceildiv(QUERIES, WARPS * WARP)):
            if i * WARPS * WARP + own < count:
                take_logarithm(block, lse, statistics, later, first + i * WARPS * WARP + own)
        T.sync_warp()
        if lane == 0:
            T.call_extern("handle", "count_one", T.access_ptr(counters[later * block.query_blocks, READY], "rw"))


@T.macro
def await_statistics(block: GradientBlock, counters: Any, head: Any) -> None:
    """Wait until other blocks have computed the statistics of a head. Those of the first heads are there."""
    if head >= block.ahead:
        T.call_extern(
            "handle",
            "await_statistics",
            T.access_ptr(counters[head * block.query_blocks, READY], "r"),
            WARPS * ceildiv(block.rows, 2),
        )
