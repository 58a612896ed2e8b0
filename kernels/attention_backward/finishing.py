"""dQ that the main kernel finishes: warps beside the producer take the sums of earlier heads, which are complete."""

from typing import Any

import tilelang.language as T

from kernels.attention_backward.block import ADDED, FINISHED, GROUPS, MASKED, ROWS, WARP, GradientBlock, GradientTiles
from kernels.attention_backward.ends import COLUMNS
from kernels.hopper import GROUP

WARPS = GROUPS  # beside the producer, that finish; shared memory holds a half of dQ for each
QUERIES_OF_A_WARP = 2 * MASKED // WARPS  # in blocks of 64: so half of the blocks of threads finish all
FLOATS = 4  # of a copy of 16 bytes

COUNT_FUNCTION = r"""
// Count a block of threads, or a warp; the thread has seen all that it added or stored.
static __device__ __forceinline__ void count_one(int *counter) {
  __threadfence();
  atomicAdd(counter, 1);
}
"""
FINISH_FUNCTIONS = r"""
// Additions without an answer. Beside the functions below nvcc 13.0 makes atomicAdd an instruction that brings the old
// value back, though nothing takes it.
static __device__ __forceinline__ void reduce(float4 *to, float4 value) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(value.x), "f"(value.y), "f"(value.z),
               "f"(value.w) : "memory");
}
template <int chunks>
static __device__ __forceinline__ void reduce_sums(const float *own, float *sums, int thread) {
#pragma unroll
  for (int i = 0; i < chunks; ++i)
    reduce(reinterpret_cast<float4 *>(sums) + i * 128 + thread,
           make_float4(own[4 * i], own[4 * i + 1], own[4 * i + 2], own[4 * i + 3]));
}
// How many blocks have. The warp sees all additions of those.
static __device__ __forceinline__ int counted_blocks(const int *counter) {
  int count = 0;
  if (threadIdx.x % 32 == 0) {
    count = *static_cast<const volatile int *>(counter);
    __threadfence();
  }
  __syncwarp();
  return __shfl_sync(0xffffffff, count, 0, 32);
}
// A warp brings sums of 64 queries and 8 * chunks columns into dQ's order and dtype, and leaves zeros.
template <int chunks, int depth, typename Element>
static __device__ __forceinline__ void finish_sums(float *sums, const float *held, Element *gradients, float scale) {
  struct alignas(4) Pair { Element x, y; };
  const int lane = threadIdx.x % 32;
#pragma unroll 2
  for (int i = 0; i < 4 * chunks; ++i) {
    const float4 sum = reinterpret_cast<const float4 *>(held)[32 * i + lane];
    reinterpret_cast<float4 *>(sums)[32 * i + lane] = make_float4(0, 0, 0, 0);
    Element *at = gradients + (i % 4 * 16 + lane / 4) * depth + i / 4 * 8 + lane % 4 * 2;
    *reinterpret_cast<Pair *>(at) = {Element(sum.x * scale), Element(sum.y * scale)};
    *reinterpret_cast<Pair *>(at + 8 * depth) = {Element(sum.z * scale), Element(sum.w * scale)};
  }
}
"""


@T.macro
def tell_added(block: GradientBlock, counters: Any, head: Any, thread: Any) -> None:
    """Count this block, after its groups have met. A warp does it that stores no tile."""
    if thread == GROUP + WARP:
        T.call_extern("handle", "count_one", T.access_ptr(counters[head * block.query_blocks, ADDED], "rw"))


@T.macro
def hold_sums(shared: GradientTiles, sums: Any, at: Any, first: Any, size: int, thread: Any, warp: Any) -> None:
    """Each lane copies what it will finish to shared memory: the producer's registers hold too few loads."""
    lane = thread % WARP
    for i in T.serial(size // (WARP * FLOATS)):
        own = (i * WARP + lane) * FLOATS
        T.ptx_cp_async(T.access_ptr(shared.sums[warp, own], "w"), T.access_ptr(sums[at, first + own], "r"), FLOATS)
    T.ptx_commit_group()
    T.ptx_wait_group(0)


@T.macro
def finish_block(
    block: GradientBlock, shared: GradientTiles, sums: Any, dQ: Any, head: Any, m: Any, thread: Any, warp: Any
) -> None:
    """dQ of 64 queries, one half of the columns after the other. One warp does this."""
    at, size = head * block.query_blocks + m, ROWS * block.half
    for half in T.serial(GROUPS):
        hold_sums(shared, sums, at, half * size, size, thread, warp)
        T.call_extern(
            "handle",
            f"finish_sums<{block.half // COLUMNS}, {block.depth}>",
            T.access_ptr(sums[at, half * size], "rw"),
            T.address_of(shared.sums[warp, 0]),
            T.access_ptr(dQ[head // block.heads, head % block.heads, m * ROWS, half * block.half], "w"),
            block.scale,
        )


@T.macro
def finish_queries(
    block: GradientBlock,
    shared: GradientTiles,
    sums: Any,
    counters: Any,
    dQ: Any,
    place: tuple[Any, Any],
    thread: Any,
    warp: Any,
) -> None:
    """Finish some queries of an earlier head if all of its blocks have ended. The longer half of the blocks do this."""
    row, head = place
    earlier = head - block.behind
    if earlier >= 0 and row * 2 < block.rows:
        all = T.call_extern("int32", "counted_blocks", T.access_ptr(counters[earlier * block.query_blocks, ADDED], "r"))
        if all == block.rows:
            for each in T.serial(QUERIES_OF_A_WARP):
                m = (row * WARPS + warp) * QUERIES_OF_A_WARP + each
                if m < block.query_blocks:
                    finish_block(block, shared, sums, dQ, earlier, m, thread, warp)
                    if thread % WARP == 0:
                        counters[earlier * block.query_blocks + m, FINISHED] = 1
