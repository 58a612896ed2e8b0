"""What a consumer group does with a block of keys: two products, and the online softmax between them."""

from typing import Any

import tilelang.language as T

from kernels.flash_attention.block import EPILOGUE_N, ROWS, Consumer
from kernels.hopper import GROUP

LEAST = -(2.0**100)  # a masked score: a power of two, so that scale * LEAST - scale * LEAST is 0 in one FMA too
TURN_BARRIER = 8  # named barriers from here on are one per consumer group; TileLang takes them from 0
EPILOGUE_BARRIER = 12  # likewise

FUNCTIONS = r"""
// Of a WGMMA accumulator a thread has two rows, and two of every eight columns.
template <int columns>
static __device__ __forceinline__ void add_own_columns(const float *scores, float *sums) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float even = 0, odd = 0;
#pragma unroll
    for (int i = 2 * row; i < columns / 2; i += 4) {
      even += scores[i];
      odd += scores[i + 1];
    }
    sums[row] += even + odd;
  }
}
static __device__ __forceinline__ void add_lanes(float *sums) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    sums[row] += __shfl_xor_sync(~0u, sums[row], 2);
    sums[row] += __shfl_xor_sync(~0u, sums[row], 1);
  }
}
// Adds 0 * out to the maxima: what needs them cannot stand above the wait for out then, wherever ptxas would have it.
static __device__ __forceinline__ void tie(float *maxima, const float *out) {
#pragma unroll
  for (int row = 0; row < 2; ++row)
    asm("fma.rn.f32 %0, %1, 0f00000000, %0;" : "+f"(maxima[row]) : "f"(out[2 * row]));
}
// A store that never happens, of a sum of powers. The wait for P V follows it, and so the powers.
static __device__ __forceinline__ void hold_wait(float sum) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p st.shared.f32 [%1], %0;\n}"
               : : "f"(sum), "r"(0) : "memory");
}
"""

FUNCTIONS_OF_ONE_TEXT = r"""
// A number that all lanes of a warp share, which the compiler does not know of threadIdx.
static __device__ __forceinline__ int of_warp(int number) { return __shfl_sync(~0u, number, 0); }
static __device__ __forceinline__ void await_turn_of(int barrier) {
  asm volatile("bar.sync %0, 256;" : : "r"(barrier) : "memory");
}
static __device__ __forceinline__ void give_turn_to(int barrier) {
  asm volatile("bar.arrive %0, 256;" : : "r"(barrier) : "memory");
}
"""

FUNCTIONS_BY_ROW = r"""
// One row after the other, so that the powers of the first run beside the maxima of the second. The factor is part of
// the sum from its start: otherwise ptxas computes it last, and the scaling of the output waits for all powers.
template <int columns, bool first>
static __device__ __forceinline__ void find_row_maxima(
    const float *scores, float *maxima, float *scale, float to_log2) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float before = maxima[row];
    float maximum = first ? scores[2 * row] : before;
#pragma unroll
    for (int i = 2 * row; i < columns / 2; i += 4) maximum = fmaxf(fmaxf(maximum, scores[i]), scores[i + 1]);
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
    if (!first) scale[row] = exp2f((before - maximum) * to_log2);
    maxima[row] = maximum;
  }
}
template <int columns, bool first, bool late_wait>
static __device__ __forceinline__ void exponentiate_rows(
    float *scores, const float *maxima, const float *scale, float *sums, float to_log2) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float shift = maxima[row] * to_log2;
    float sum = first ? 0 : sums[row] * scale[row];
#pragma unroll
    for (int i = 2 * row; i < columns / 2; i += 4) {
      scores[i] = exp2f(scores[i] * to_log2 - shift);
      scores[i + 1] = exp2f(scores[i + 1] * to_log2 - shift);
      sum = sum + scores[i] + scores[i + 1];
    }
    if (late_wait && row == 0) hold_wait(sum);
    sums[row] = sum;
  }
}
"""

FUNCTIONS_IN_PARTS = r"""
// Powers of the scores from one to another, of both rows; they join the sums. The wait for P V may have to follow.
template <int from, int to, bool before_wait>
static __device__ __forceinline__ void exponentiate_part(
    float *scores, const float *maxima, float *sums, float to_log2) {
  const float shift[2] = {maxima[0] * to_log2, maxima[1] * to_log2};
  float parts[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = from; i < to; ++i) {
    scores[i] = exp2f(scores[i] * to_log2 - shift[i / 2 % 2]);
    parts[i % 4] += scores[i];
  }
  sums[0] += parts[0] + parts[1];
  sums[1] += parts[2] + parts[3];
  if (before_wait) hold_wait(sums[0] + sums[1]);
}
"""

FUNCTIONS_OF_GROWTH = r"""
// A maximum that grew little stays as it was: the powers are then at most 2^limit, and no sum has a factor.
static __device__ __forceinline__ void keep_maxima(
    const float *before, float *maxima, float *scale, float to_log2, float limit) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float growth = (maxima[row] - before[row]) * to_log2;
    if (growth <= limit) maxima[row] = before[row];
    scale[row] = growth <= limit ? 1.f : exp2f(-growth);
  }
}
template <int columns>
static __device__ __forceinline__ void rescale_grown(float *out, const float *scale) {
  if (__any_sync(~0u, scale[0] != 1.f || scale[1] != 1.f)) {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) out[i] *= scale[i / 2 % 2];
  }
}
"""


@T.macro
def signal(thread: Any, barriers: Any, index: Any) -> None:
    if thread % GROUP == 0:
        T.mbarrier_arrive(barriers[index])


@T.macro
def free(c: Consumer, empty: Any, at: Any) -> None:
    """Tell each block of the cluster, since a load of one writes to all, that the ``at``-th block of keys is read."""
    stage = at % c.block.num_stages
    if c.block.cluster > 1:
        if c.thread % GROUP < c.block.cluster:
            T.mbarrier_arrive(empty[stage], c.thread % GROUP)
    else:
        signal(c.thread, empty, stage)


@T.macro
def await_queries(c: Consumer, wave: Any) -> None:
    block = c.block
    at = wave % block.Q_stages * block.consumer_groups + c.group
    T.mbarrier_wait_parity(c.shared.Q_full[at], (wave // block.Q_stages) & 1)


@T.macro
def free_queries(c: Consumer, wave: Any) -> None:
    signal(c.thread, c.shared.Q_empty, wave % c.block.Q_stages * c.block.consumer_groups + c.group)


@T.macro
def await_block(c: Consumer, full: Any, at: Any) -> None:
    """Wait until the producer's ``at``-th block of K or of V is there."""
    T.mbarrier_wait_parity(full[at % c.block.num_stages], (at // c.block.num_stages) & 1)


@T.macro
def await_loads(c: Consumer, at: Any) -> None:
    """Before a turn: wait for the block of keys that it reads, and for the values of the block before.

    The first group waits for all. Turns go round: when another group has its turn, the first has had its own.
    """
    if c.awaits_loads:
        await_block(c, c.shared.K_full, at)
        await_block(c, c.shared.V_full, at - 1)


@T.macro
def start_scores(c: Consumer, wave: Any, at: Any, waits: bool = True) -> None:
    """S = Q Kᵀ of the block of keys that is the producer's ``at``-th."""
    block, shared = c.block, c.shared
    stage = at % block.num_stages
    queries = wave % block.Q_stages * block.consumer_groups + c.group
    if waits:
        await_block(c, shared.K_full, at)
    T.wgmma_gemm(shared.Q[queries, :, :], shared.K[stage, :, :], c.registers.S, transpose_B=True, clear_accum=True)


@T.macro
def end_scores(c: Consumer, at: Any, in_flight: int) -> None:
    T.wait_wgmma(in_flight)
    # wgmma_gemm fences its accumulators before the wait; once more, so that nothing reads them early.
    T.warpgroup_fence_operand(c.registers.S, num_regs=ROWS * c.block.block_N // GROUP)
    free(c, c.shared.K_empty, at)


@T.macro
def start_values(c: Consumer, at: Any, waits: bool = True) -> None:
    """out += P V."""
    stage = at % c.block.num_stages
    if waits:
        await_block(c, c.shared.V_full, at)
    T.wgmma_gemm(c.registers.P, c.shared.V[stage, :, :], c.registers.out)


@T.macro
def end_values(c: Consumer, at: Any) -> None:
    T.wait_wgmma(0)
    T.warpgroup_fence_operand(c.registers.out, num_regs=ROWS * c.block.width // GROUP)
    free(c, c.shared.V_empty, at)


@T.macro
def await_turn(c: Consumer) -> None:
    if c.ping_pong:
        if c.block.one_text:
            T.call_extern("void", "await_turn_of", TURN_BARRIER + c.group)
        else:
            T.sync_threads(TURN_BARRIER + c.group, 2 * GROUP)


@T.macro
def give_turn(c: Consumer, to: Any) -> None:
    if c.ping_pong:
        barrier = TURN_BARRIER + to % c.block.consumer_groups
        if c.block.one_text:
            T.call_extern("void", "give_turn_to", barrier)
        else:
            T.named_barrier_arrive(barrier, 2 * GROUP)


@T.macro
def mask(c: Consumer, m0: Any, n0: Any) -> None:
    """Hide scores of keys that a query must not see, or that do not exist; the block begins at query m0 and key n0."""
    block, S = c.block, c.registers.S
    for i, j in T.Parallel(ROWS, block.block_N):
        if block.causal:
            S[i, j] = T.if_then_else(m0 + i >= n0 + j, S[i, j], LEAST)
        else:
            S[i, j] = T.if_then_else(n0 + j < block.tokens, S[i, j], LEAST)


@T.macro
def find_maxima(c: Consumer, first: bool) -> None:
    """The maximum of each row so far; ``scale`` is the factor for sums made with the maximum before."""
    r = c.registers
    if c.growth > 0 and not first:
        T.copy(r.maximum, r.before)
    if c.by_row:
        if first:
            T.fill(r.scale, 1.0)
        else:
            if c.growth > 0:
                T.copy(r.total, r.scale)  # its layout, which the scaling of the output gives otherwise
            T.copy(r.maximum, r.scale)  # which gives the maxima their layout too
        rows = f"find_row_maxima<{c.block.block_N}, {str(first).lower()}>"
        T.call_extern("handle", rows, r.S.data, r.maximum.data, r.scale.data, T.float32(c.block.to_log2))
    elif first:
        T.reduce_max(r.S, r.maximum, dim=1, clear=True)
        if not c.keeps_maxima:
            T.fill(r.scale, 1.0)
    else:
        T.copy(r.maximum, r.before)
        T.reduce_max(r.S, r.maximum, dim=1, clear=False)
        for i in T.Parallel(ROWS):
            r.scale[i] = T.exp2((r.before[i] - r.maximum[i]) * c.block.to_log2)
    if c.growth > 0 and not first:
        numbers = T.float32(c.block.to_log2), T.float32(c.growth)
        T.call_extern("handle", "keep_maxima", r.before.data, r.maximum.data, r.scale.data, *numbers)


@T.macro
def exponentiate(c: Consumer, first: bool) -> None:
    """S becomes exp2(to_log2 * (S - the row's maximum)), and joins the row's total."""
    if c.by_row:
        exponentiate_by_row(c, first)
    else:
        exponentiate_together(c, first)


@T.macro
def exponentiate_by_row(c: Consumer, first: bool) -> None:
    r, columns = c.registers, c.block.block_N
    rows = f"exponentiate_rows<{columns}, {str(first).lower()}, {str(c.late_wait).lower()}>"
    T.call_extern("handle", rows, r.S.data, r.maximum.data, r.scale.data, r.total.data, T.float32(c.block.to_log2))


@T.macro
def exponentiate_together(c: Consumer, first: bool) -> None:
    r, to_log2 = c.registers, c.block.to_log2
    for i, j in T.Parallel(ROWS, c.block.block_N):
        r.S[i, j] = T.exp2(r.S[i, j] * to_log2 - r.maximum[i] * to_log2)
    if c.partial_sums:
        if first:
            T.clear(r.total)
        else:
            for i in T.Parallel(ROWS):
                r.total[i] *= r.scale[i]
        T.call_extern("handle", f"add_own_columns<{c.block.block_N}>", r.S.data, r.total.data)
    else:
        T.reduce_sum(r.S, r.sum, dim=1)
        for i in T.Parallel(ROWS):
            r.total[i] = r.sum[i] if first else r.total[i] * r.scale[i] + r.sum[i]


@T.macro
def exponentiate_part(c: Consumer, start: int, stop: int, before_wait: bool) -> None:
    """The powers of these of a thread's scores."""
    r = c.registers
    numbers = f"exponentiate_part<{start}, {stop}, {str(before_wait).lower()}>"
    T.call_extern("handle", numbers, r.S.data, r.maximum.data, r.total.data, T.float32(c.block.to_log2))


@T.macro
def exponentiate_before_wait(c: Consumer, first: bool) -> None:
    """The powers that stand before the wait for P V: by default all, and ptxas moves the wait."""
    r = c.registers
    if c.splits_powers:
        if first:
            T.clear(r.total)
        else:
            for i in T.Parallel(ROWS):
                r.total[i] *= r.scale[i]
        exponentiate_part(c, 0, c.powers_first, True)
    elif not c.early_wait:
        exponentiate(c, first)


@T.macro
def exponentiate_after_wait(c: Consumer, first: bool) -> None:
    """The rest of them, which cannot stand before it."""
    if c.splits_powers:
        tie(c)
        exponentiate_part(c, c.powers_first, c.block.block_N * ROWS // GROUP, False)
    elif c.early_wait:
        tie(c)
        exponentiate(c, first)


@T.macro
def tie(c: Consumer) -> None:
    T.call_extern("handle", "tie", c.registers.maximum.data, c.registers.out.data)


@T.macro
def rescale(c: Consumer) -> None:
    r = c.registers
    if c.growth > 0:
        T.call_extern("handle", f"rescale_grown<{c.block.width}>", r.out.data, r.scale.data)
    else:
        for i, j in T.Parallel(ROWS, c.block.width):
            r.out[i, j] *= r.scale[i]


@T.macro
def invert_total(c: Consumer) -> None:
    if c.partial_sums:
        T.call_extern("handle", "add_lanes", c.registers.total.data)
    for i in T.Parallel(ROWS):
        c.registers.inverse[i] = 1.0 / c.registers.total[i]


@T.macro
def store_from_registers(c: Consumer, Out: Any, head: Any, m0: Any) -> None:
    """The output straight to global memory: 16 bytes of a row at a time, half a sector, by LSU instructions."""
    block, r = c.block, c.registers
    batch, own = head // block.heads, head % block.heads
    for i, j in T.Parallel(ROWS, block.width):
        if block.tokens % block.block_M == 0:
            Out[batch, own, m0 + i, j] = r.out[i, j] * r.inverse[i]
        else:
            if m0 + i < block.tokens:
                Out[batch, own, m0 + i, j] = r.out[i, j] * r.inverse[i]


def epilogue_buffer(c: Consumer, number: int) -> Any:
    outputs = c.shared.outputs[c.group]
    return outputs[number, :, :] if c.block.one_array else outputs[number]


@T.macro
def store_by_tma(c: Consumer, Out: Any, head: Any, m0: Any) -> None:
    """The output through the group's epilogue buffers, in whole rows; TMA leaves out rows past the end."""
    block, r = c.block, c.registers
    batch, own = head // block.heads, head % block.heads
    for i, j in T.Parallel(ROWS, block.width):
        r.out[i, j] *= r.inverse[i]
    for part in list(range(block.width // EPILOGUE_N)):
        n0 = part * EPILOGUE_N
        buffer = epilogue_buffer(c, part % block.epilogue_buffers)
        T.tma_store_wait(block.epilogue_buffers - 1)  # this buffer's last store has read it
        T.sync_threads(EPILOGUE_BARRIER + c.group, GROUP)
        T.copy(r.out[:, n0 : n0 + EPILOGUE_N], buffer)
        T.fence_proxy_async()
        T.sync_threads(EPILOGUE_BARRIER + c.group, GROUP)
        T.tma_copy(buffer, Out[batch, own, m0 : m0 + ROWS, n0 : n0 + EPILOGUE_N])


@T.macro
def store(c: Consumer, Out: Any, head: Any, m0: Any) -> None:
    if c.block.one_text:
        for group in list(range(c.block.consumer_groups)):
            if c.group == group:
                store_own(c.numbered(group), Out, head, m0)
    else:
        store_own(c, Out, head, m0)


@T.macro
def store_own(c: Consumer, Out: Any, head: Any, m0: Any) -> None:
    if c.block.epilogue_buffers > 0:
        store_by_tma(c, Out, head, m0)
    else:
        store_from_registers(c, Out, head, m0)


@T.macro
def end_stores(c: Consumer) -> None:
    """Shared memory must outlive the stores that read it."""
    if c.block.epilogue_buffers > 0:
        T.tma_store_wait(0)
