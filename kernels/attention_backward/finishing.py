"""dQ that the main kernel finishes: a warp counts the additions to its sums, and finishes those that are complete."""

from typing import Any

import tilelang.language as T

from kernels.attention_backward.block import (
    AHEAD,
    COUNTED,
    GROUPS,
    MASKED,
    ROWS,
    WARP,
    GradientBlock,
    GradientTiles,
)
from kernels.attention_backward.ends import COLUMNS
from kernels.operands import ceildiv

FLOATS = 4  # of a copy of 16 bytes

FINISH_FUNCTIONS = r"""
// Additions that nothing answers. Beside the functions below nvcc 13.0 makes atomicAdd an instruction whose old value
// comes back, though nothing takes it.
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
// Count a block's additions to the sums of some steps, which the warp has seen. A bit for each step says whether it was
// the last of all; then the warp sees the other blocks' too. A fence takes as long as a step, so it is for all of them.
template <int groups, int masked>
static __device__ __forceinline__ int were_last(int *counters, int first, int steps) {
  const int lane = threadIdx.x % 32;
  int last = 0;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  if (lane < steps) {
    last = atomicAdd(counters + lane * groups, 1) == (first + lane) / masked;
    if (last) counters[lane * groups] = 0;
  }
  const int all = __ballot_sync(0xffffffff, last);
  if (all) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  __syncwarp();
  return all;
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
def tell_added(shared: GradientTiles, step: Any, thread: Any, group: int) -> None:
    """Tell the finishing warp that this group has added its half of dQ."""
    slot = group * AHEAD + step % AHEAD
    T.mbarrier_wait_parity(shared.counted[slot], ((step // AHEAD) & 1) ^ 1)
    T.sync_warp()
    if thread % WARP == 0:
        T.mbarrier_arrive(shared.added[slot])


@T.macro
def hold_sums(block: GradientBlock, shared: GradientTiles, sums: Any, at: Any, thread: Any, group: Any) -> None:
    """Each lane copies what it will finish to shared memory: the producer's registers hold too few loads."""
    lane, size = thread % WARP, ROWS * block.half
    for i in T.serial(size // (WARP * FLOATS)):
        first = (i * WARP + lane) * FLOATS
        T.ptx_cp_async(
            T.access_ptr(shared.sums[group, first], "w"), T.access_ptr(sums[at, group * size + first], "r"), FLOATS
        )
    T.ptx_commit_group()
    T.ptx_wait_group(0)


@T.macro
def finish_queries(
    block: GradientBlock,
    shared: GradientTiles,
    sums: Any,
    counters: Any,
    dQ: Any,
    place: tuple[Any, Any],
    thread: Any,
    group: Any,
) -> None:
    """Count the additions to one half of dQ, and finish the sums that they complete. One warp does this."""
    row, head = place
    batch, own = head // block.heads, head % block.heads
    steps = T.alloc_var("int32")
    last = T.alloc_var("int32")
    for some in T.serial(ceildiv(block.steps(row), COUNTED)):
        m = row * MASKED + some * COUNTED
        at = head * block.query_blocks + m
        steps = T.min(block.steps(row) - some * COUNTED, COUNTED)
        for i in T.serial(steps):
            step = some * COUNTED + i
            T.mbarrier_wait_parity(shared.added[group * AHEAD + step % AHEAD], (step // AHEAD) & 1)
        last = T.call_extern(
            "int32", f"were_last<{GROUPS}, {MASKED}>", T.access_ptr(counters[at, group], "rw"), m, steps
        )
        for i in T.serial(steps):
            if (last >> i) & 1 != 0:
                hold_sums(block, shared, sums, at + i, thread, group)
                T.call_extern(
                    "handle",
                    f"finish_sums<{block.half // COLUMNS}, {block.depth}>",
                    T.access_ptr(sums[at + i, group * ROWS * block.half], "rw"),
                    T.address_of(shared.sums[group, 0]),
                    T.access_ptr(dQ[batch, own, (m + i) * ROWS, group * block.half], "w"),
                    block.scale,
                )
        if thread % WARP == 0:
            for i in T.serial(steps):
                T.mbarrier_arrive(shared.counted[group * AHEAD + (some * COUNTED + i) % AHEAD])
