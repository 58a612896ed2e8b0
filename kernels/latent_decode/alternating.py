"""Latent attention in pairs of blocks, as FlashMLA does it: while one group multiplies, the other has its softmax.

Group 0 computes the scores of the first block of a pair, and group 1 those of the second. Each has a half of the
output's columns, so each needs the weights of both blocks: its own from registers, and the other's from shared memory.
The maxima go from the first block to the second, and from there to the next pair.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.hopper import GROUP, require_shared, run_consumers, wait_for_kernel_before
from kernels.latent_decode.rows import GROUPS, MEETING, LatentRows
from kernels.operands import require
from kernels.paged_decode.kernel import (
    BARRIER,
    BLOCK,
    COUNT,
    END,
    LEAST,
    LINE_FUNCTION,
    PLACE,
    ROWS,
    SEQUENCE,
    SLOTS,
    LaneCounts,
    Shares,
    advance,
    begin,
    count_places,
    decoding,
    enter_row,
    require_counts,
    signal,
    start_of,
    steps_of,
)
from kernels.paged_decode.kernel import FUNCTIONS as PAGED_FUNCTIONS

KEYS: Final = 64  # of a block; a pair has one for each group
PARTS: Final = 3  # of a block in shared memory: two halves of the values, and the rest
REST: Final = 2
REGISTERS: Final = (24, 240)  # of a thread (producer, consumer)

FUNCTIONS: Final = r"""
// Bring a block of keys into the L2 cache, where its load will find it.
static __device__ __forceinline__ void bring(const void *block, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(block), "r"(bytes) : "memory");
}
// Whether all other steps of a row have been written: then this thread's group ends the row, and need not write.
static __device__ __forceinline__ int others_are_written(int *counter, int *said, int steps, int all, int barrier) {
  if (threadIdx.x % 128 == 0) {
    int written;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(written) : "l"(counter) : "memory");
    *said = written + steps == all;
    if (*said) *counter = 0;
  }
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
  return *said;
}
"""
REGISTER_FUNCTIONS: Final = r"""
// Write a thread's registers of the output, four at a time; the threads of a group lie beside each other.
template <int count>
static __device__ __forceinline__ void leave_registers(const float *out, float *parts, int part) {
  float4 *to = reinterpret_cast<float4 *>(parts) + part * (count * 32) + threadIdx.x % 128;
#pragma unroll
  for (int i = 0; i < count; i += 4) to[i * 32] = make_float4(out[i], out[i + 1], out[i + 2], out[i + 3]);
}
// Add what another block's thread has left so, by the factors of its rows; 32 registers load at once.
template <int count>
static __device__ __forceinline__ void add_registers(
    float *out, const float *parts, int part, const float *own, const float *other) {
  const float4 *from = reinterpret_cast<const float4 *>(parts) + part * (count * 32) + threadIdx.x % 128;
#pragma unroll
  for (int first = 0; first < count; first += 32) {
    float4 left[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) left[i] = from[(first + 4 * i) * 32];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float *to = out + first + 4 * i;
      to[0] = to[0] * own[0] + left[i].x * other[0];
      to[1] = to[1] * own[0] + left[i].y * other[0];
      to[2] = to[2] * own[1] + left[i].z * other[1];
      to[3] = to[3] * own[1] + left[i].w * other[1];
    }
  }
}
"""


@dataclass(frozen=True, kw_only=True)
class PairBlock(LatentRows):
    """A problem's sizes and those of a block of threads. Raises ValueError for what cannot work."""

    row_cost: int  # in pairs
    warps_look_up: bool
    num_sms: int

    walked_heads = 1  # as a cursor counts them: a block of threads stays with its tile

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.page % KEYS == 0, f"pages of {self.page} tokens are no multiple of {KEYS}, the keys of a block")
        require(self.row_cost > 0, f"row_cost={self.row_cost} is below 1")
        require_counts(self.warps_look_up, self.sequences)
        require(self.shares > 0, f"{self.tiles} tiles of heads need as many multiprocessors")
        states = 2 * GROUPS * 4 * ROWS
        require_shared(self.row_bytes * (ROWS + GROUPS * KEYS) + states + 8 * self.sequences)

    @property
    def shares(self) -> int:
        """Those of a tile."""
        return self.num_sms // self.tiles

    @property
    def cluster(self) -> int:
        """Blocks of threads; their tiles share each load."""
        return 2 - self.tiles % 2

    @property
    def registers(self) -> int:
        """Those of a thread's output."""
        return ROWS * self.width // GROUP

    def place(self, number: Any) -> tuple[Any, Any]:
        """Tile and share of a block of threads; those of a cluster have the same share of different tiles."""
        cluster, rank = T.truncdiv(number, self.cluster), T.truncmod(number, self.cluster)
        return T.truncdiv(cluster, self.shares) * self.cluster + rank, T.truncmod(cluster, self.shares)

    def launch(self) -> Any:
        blocks, threads = self.shares * self.tiles, (GROUPS + 1) * GROUP
        prelude = LINE_FUNCTION * self.warps_look_up + PAGED_FUNCTIONS + FUNCTIONS + REGISTER_FUNCTIONS
        if self.cluster == 1:
            return T.Kernel(blocks, threads=threads, prelude=prelude)
        return T.ClusterKernel(blocks, threads=threads, prelude=prelude, cluster_dims=(self.cluster, 1, 1))

    def page_of(self, table: Any, cursor: Any, at: Any) -> Any:
        """The page of a sequence's token ``at``; the last one's where a pair reaches beyond."""
        return table[cursor[SEQUENCE], T.min(T.truncdiv(at, self.page), self.pages - 1)]

    def count(self, length: Any) -> Any:
        """Places of a sequence: its pairs of blocks, and what a row costs."""
        return T.truncdiv(length + GROUPS * KEYS - 1, GROUPS * KEYS) + self.row_cost


@dataclass(frozen=True)
class TileShares(Shares):
    """The shares of a tile of heads; the first has this number among all."""

    first: Any

    def owner(self, place: Any) -> Any:
        return super().owner(place) + self.first


@dataclass(frozen=True)
class PairMemory:
    """Queries and a pair of blocks in shared memory, each as the halves of the values and the rest, with barriers.

    Where the rest of a block was, its weights come: the scores are known then.
    """

    Q: list[Any]  # by part
    K: list[Any]  # by part, each with both blocks
    lengths: Any
    ends: Any
    said: Any
    maxima: Any  # after each block
    totals: Any  # of each group
    Q_full: Any
    Q_empty: Any
    full: Any  # by block and part
    empty: Any  # by block and half; the rest goes with the half that the other group has
    told: Any  # by block: its maxima and weights are there


@dataclass(frozen=True)
class PairRegisters:
    """Scores, their 16-bit copy, a half of the output, and the softmax's state of each row."""

    S: Any
    P: Any
    out: Any
    maximum: Any
    larger: Any
    scale: Any
    sum: Any
    total: Any


@T.macro
def allocate(block: PairBlock) -> PairMemory:
    columns = [block.width, block.width, block.rotary]
    Q = [T.alloc_shared((ROWS, columns[part]), block.dtype) for part in range(PARTS)]
    K = [T.alloc_shared((GROUPS, KEYS, columns[part]), block.dtype) for part in range(PARTS)]
    lengths = T.alloc_shared((block.sequences,), "int32")
    ends = T.alloc_shared((block.sequences,), "int32")
    said = T.alloc_shared((GROUPS,), "int32")
    maxima = T.alloc_shared((GROUPS, ROWS), "float32")
    totals = T.alloc_shared((GROUPS, ROWS), "float32")
    Q_full = T.alloc_barrier([1])
    Q_empty = T.alloc_barrier([GROUPS])
    full = T.alloc_barrier([1] * (GROUPS * PARTS))
    freed_by = [block.cluster] * (GROUPS * GROUPS)
    empty = T.alloc_cluster_barrier(freed_by) if block.cluster > 1 else T.alloc_barrier(freed_by)
    told = T.alloc_barrier([GROUP] * GROUPS)
    return PairMemory(Q, K, lengths, ends, said, maxima, totals, Q_full, Q_empty, full, empty, told)


@T.macro
def allocate_registers(block: PairBlock) -> list[PairRegisters]:
    S = [T.alloc_fragment((ROWS, KEYS), "float32") for _ in range(GROUPS)]
    P = [T.alloc_fragment((ROWS, KEYS), block.dtype) for _ in range(GROUPS)]
    out = [T.alloc_fragment((ROWS, block.width), "float32") for _ in range(GROUPS)]
    rows = [[T.alloc_fragment((ROWS,), "float32") for _ in range(5)] for _ in range(GROUPS)]
    return [PairRegisters(S[group], P[group], out[group], *rows[group]) for group in range(GROUPS)]


@T.macro
def load_part(
    block: PairBlock, memory: PairMemory, cache: Any, page: Any, token: Any, parity: Any, which: int, part: int
) -> None:
    """Load a part of a block into its place, once that is free."""
    first, columns = part * block.width, block.rotary if part == REST else block.width
    if part != REST:
        T.mbarrier_wait_parity(memory.empty[which * GROUPS + part], parity)
    T.tma_copy(
        cache[page, token : token + KEYS, first : first + columns],
        memory.K[part][which, :, :],
        barrier=memory.full[which * PARTS + part],
        cluster_mask=(1 << block.cluster) - 1 if block.cluster > 1 else None,
    )
    if T.shuffle_elect(32):
        T.mbarrier_arrive(memory.full[which * PARTS + part])


@T.macro
def bring(block: PairBlock, cache: Any, table: Any, cursor: Any, last: Any, tile: Any) -> None:
    """Bring the pair after the block of keys at ``last`` into the L2 cache; tiles that share loads share this."""
    for which in list(range(GROUPS)):
        at = last + (which + 1) * KEYS
        page = block.page_of(table, cursor, at)
        if T.truncmod(tile, block.cluster) == which % block.cluster:
            if T.shuffle_elect(32):
                size = KEYS * (block.depth + block.rotary) * 2
                T.call_extern("handle", "bring", T.address_of(cache[page, T.truncmod(at, block.page), 0]), size)


@T.macro
def load_queries(block: PairBlock, memory: PairMemory, Q: Any, cursor: Any, rows: Any, tile: Any) -> None:
    T.mbarrier_wait_parity(memory.Q_empty[0], (rows & 1) ^ 1)
    for part in list(range(PARTS)):
        first, columns = part * block.width, block.rotary if part == REST else block.width
        T.tma_copy(
            Q[cursor[SEQUENCE], tile * ROWS : (tile + 1) * ROWS, first : first + columns],
            memory.Q[part],
            barrier=memory.Q_full[0],
        )
    if T.shuffle_elect(32):
        T.mbarrier_arrive(memory.Q_full[0])


@T.macro
def produce(
    block: PairBlock,
    memory: PairMemory,
    Q: Any,
    cache: Any,
    table: Any,
    cursor: Any,
    shares: Shares,
    share: Any,
    tile: Any,
    counts: LaneCounts | None,
) -> None:
    begin(block, memory, cursor, shares, share, counts)
    done = T.alloc_var("int32", init=0)
    rows = T.alloc_var("int32", init=0)
    at = T.alloc_var("int32")
    page = T.alloc_var("int32")
    while cursor[PLACE] < cursor[END]:
        enter_row(block, memory, cursor)
        start, steps = start_of(block, cursor), steps_of(block, cursor)
        if steps > 0:
            load_queries(block, memory, Q, cursor, rows, tile)
        for step in T.serial(steps):
            parity = ((done + step) & 1) ^ 1
            for which in list(range(GROUPS)):
                at = ((start + step) * GROUPS + which) * KEYS
                page = block.page_of(table, cursor, at)
                # The half that the group of the other block has comes free with the rest.
                for part in [0, 1, REST] if which == 0 else [0, REST, 1]:
                    load_part(block, memory, cache, page, T.truncmod(at, block.page), parity, which, part)
            if step + 1 < steps:
                bring(block, cache, table, cursor, at, tile)
        done = done + steps
        rows = rows + T.if_then_else(steps > 0, 1, 0)
        advance(block, cursor)


@T.macro
def score(
    block: PairBlock, memory: PairMemory, r: PairRegisters, parity: Any, left: Any, thread: Any, ends: Any, group: int
) -> None:
    """S = Q Cᵀ of a group's block, of which the first ``left`` keys are the sequence's."""
    for part in list(range(PARTS)):
        T.mbarrier_wait_parity(memory.full[group * PARTS + part], parity)
        T.wgmma_gemm(memory.Q[part], memory.K[part][group, :, :], r.S, transpose_B=True, clear_accum=part == 0)
    T.wait_wgmma(0)
    T.warpgroup_fence_operand(r.S, num_regs=ROWS * KEYS // GROUP)
    if ends:
        signal(thread, memory.Q_empty, 0)
    if left < KEYS:
        for i, j in T.Parallel(ROWS, KEYS):
            r.S[i, j] = T.if_then_else(j < left, r.S[i, j], LEAST)
        for half in list(range(GROUPS)):  # 0 times what lies beyond the length need not be 0
            for i, j in T.Parallel(KEYS, block.width):
                if i >= left:
                    memory.K[half][group, i, j] = T.cast(0, block.dtype)
        T.fence_proxy_async()
        T.sync_threads(BARRIER + group, GROUP)


@T.macro
def raise_maxima(memory: PairMemory, r: PairRegisters, group: int) -> None:
    """Find the maxima after a group's block, and tell them."""
    T.copy(r.maximum, r.larger)
    T.reduce_max(r.S, r.larger, dim=1, clear=False)
    T.copy(r.larger, memory.maxima[group, :])


@T.macro
def weigh(block: PairBlock, memory: PairMemory, r: PairRegisters, group: int) -> None:
    """Find the weights of a group's block, and tell them."""
    for i, j in T.Parallel(ROWS, KEYS):
        r.S[i, j] = T.exp2(r.S[i, j] * block.to_log2 - r.larger[i] * block.to_log2)
    T.copy(r.S, r.P)
    T.copy(r.P, memory.K[REST][group, :, :])
    T.fence_proxy_async()
    T.mbarrier_arrive(memory.told[group])
    T.reduce_sum(r.S, r.sum, dim=1)


@T.macro
def rescale(block: PairBlock, r: PairRegisters) -> None:
    """Count the output and its total by the larger maxima."""
    for i in T.Parallel(ROWS):
        r.scale[i] = T.exp2((r.maximum[i] - r.larger[i]) * block.to_log2)
        r.total[i] *= r.scale[i]
        r.maximum[i] = r.larger[i]
    for i, j in T.Parallel(ROWS, block.width):
        r.out[i, j] *= r.scale[i]


@T.macro
def finish_product(block: PairBlock, memory: PairMemory, r: PairRegisters, thread: Any, which: int, group: int) -> None:
    """Wait for the values of a block, and free this group's half of them."""
    T.wait_wgmma(0)
    T.warpgroup_fence_operand(r.out, num_regs=block.registers)
    if block.cluster == 1:
        signal(thread, memory.empty, which * GROUPS + group)
    else:
        if thread % GROUP < block.cluster:  # the load writes to all of the cluster
            T.mbarrier_arrive(memory.empty[which * GROUPS + group], thread % GROUP)


@T.macro
def add_own(block: PairBlock, memory: PairMemory, r: PairRegisters, thread: Any, group: int) -> None:
    rescale(block, r)
    for i in T.Parallel(ROWS):
        r.total[i] += r.sum[i]
    T.wgmma_gemm(r.P, memory.K[group][group, :, :], r.out)
    finish_product(block, memory, r, thread, group, group)


@T.macro
def start_other(block: PairBlock, memory: PairMemory, r: PairRegisters, parity: Any, group: int) -> None:
    other = 1 - group
    T.mbarrier_wait_parity(memory.told[other], parity)
    for i in T.Parallel(ROWS):
        r.larger[i] = memory.maxima[other, i]
    rescale(block, r)
    T.wgmma_gemm(memory.K[REST][other, :, :], memory.K[group][other, :, :], r.out)


@T.macro
def attend(
    block: PairBlock, memory: PairMemory, r: PairRegisters, parity: Any, left: Any, thread: Any, ends: Any, group: int
) -> None:
    """Add a pair of blocks to a group's half of the output; ``left`` is of the first."""
    score(block, memory, r, parity, left - group * KEYS, thread, ends, group)
    if group == 0:
        raise_maxima(memory, r, group)
        weigh(block, memory, r, group)
        add_own(block, memory, r, thread, group)
        start_other(block, memory, r, parity, group)
        finish_product(block, memory, r, thread, 1 - group, group)
    else:
        start_other(block, memory, r, parity, group)
        raise_maxima(memory, r, group)
        weigh(block, memory, r, group)
        finish_product(block, memory, r, thread, 1 - group, group)
        add_own(block, memory, r, thread, group)


@T.macro
def add_totals(memory: PairMemory, r: PairRegisters, group: int) -> None:
    T.copy(r.total, memory.totals[group, :])
    T.sync_threads(MEETING, GROUPS * GROUP)
    for i in T.Parallel(ROWS):
        r.total[i] += memory.totals[1 - group, i]
    T.sync_threads(MEETING, GROUPS * GROUP)  # before the next row's come


def hand_over(
    function: str, counters: Any, memory: PairMemory, cursor: Any, steps: Any, pairs: Any, tile: Any, group: int
) -> Any:
    """Call what finds out whether a group ends its row."""
    return T.call_extern(
        "int32",
        function,
        T.address_of(counters[cursor[SEQUENCE], tile, group]),
        T.address_of(memory.said[group]),
        steps,
        pairs,
        BARRIER + group,
    )


def on_registers(verb: str, block: PairBlock, r: PairRegisters, parts: Any, part: Any, *factors: Any) -> Any:
    function = f"{verb}_registers<{block.registers}>"
    return T.call_extern("handle", function, r.out.data, T.address_of(parts[0, 0, 0]), part, *factors)


@T.macro
def add_parts(
    block: PairBlock, parts: Any, states: Any, r: PairRegisters, cursor: Any, shares: Shares, own: Any, group: int
) -> None:
    """Add what the other shares of a row have left to a group's half of the output."""
    first = T.alloc_var("int32")
    last = T.alloc_var("int32")
    part = T.alloc_var("int32")
    first = shares.owner(cursor[PLACE] - cursor[BLOCK] + block.row_cost)
    last = shares.owner(cursor[PLACE] - cursor[BLOCK] + cursor[COUNT] - 1)
    for others in T.serial(last - first + 1):
        if first + others != own:
            part = (first + others) * 2 + T.if_then_else(others == 0, 1, 0)
            for i in T.Parallel(ROWS):
                r.larger[i] = T.max(r.maximum[i], states[part, 0, i])
                r.scale[i] = T.exp2((r.maximum[i] - r.larger[i]) * block.to_log2)
                r.sum[i] = T.exp2((states[part, 0, i] - r.larger[i]) * block.to_log2)
                r.total[i] = r.total[i] * r.scale[i] + states[part, 1, i] * r.sum[i]
                r.maximum[i] = r.larger[i]
            on_registers("add", block, r, parts, part * GROUPS + group, r.scale.data, r.sum.data)


def latent_decode_in_pairs(problem: Problem, row_cost: int, warps_look_up: bool, num_sms: int) -> Program:
    """The kernel of ``alternate``: see ``latent_decode``."""
    block = PairBlock(**PairBlock.sizes(problem), row_cost=row_cost, warps_look_up=warps_look_up, num_sms=num_sms)
    width, blocks = block.width, block.shares * block.tiles
    parts_shape, states_shape = (2 * blocks, GROUPS, ROWS * width), (2 * blocks, 2, ROWS)
    counters_shape = (block.sequences, block.tiles, GROUPS)
    q_shape, cache_shape, table_shape, lengths_shape = problem.inputs
    o_shape, dtype = problem.output_shape, block.dtype

    @T.macro
    def leave_part(parts: Any, states: Any, r: PairRegisters, part: Any, group: int) -> None:
        on_registers("leave", block, r, parts, part * GROUPS + group)
        for i in T.Parallel(ROWS):  # both groups have the same
            states[part, 0, i] = r.maximum[i]
            states[part, 1, i] = r.total[i]

    @T.macro
    def end_row(
        Out: Any,
        parts: Any,
        states: Any,
        counters: Any,
        memory: PairMemory,
        r: PairRegisters,
        cursor: Any,
        shares: TileShares,
        own: Any,
        tile: Any,
        start: Any,
        steps: Any,
        group: int,
    ) -> None:
        """Write the output if these were the row's last steps, else leave them to those that will be."""
        pairs, ended = cursor[COUNT] - block.row_cost, T.alloc_var("int32")
        if steps == pairs:
            ended = 1
        else:
            ended = hand_over("others_are_written", counters, memory, cursor, steps, pairs, tile, group)
            if ended == 0:
                leave_part(parts, states, r, own * 2 + T.if_then_else(start == 0, 1, 0), group)
                ended = hand_over("ends_row", counters, memory, cursor, steps, pairs, tile, group)
            if ended != 0:
                add_parts(block, parts, states, r, cursor, shares, own, group)
        if ended != 0:
            for i, j in T.Parallel(ROWS, width):
                Out[cursor[SEQUENCE], tile * ROWS + i, group * width + j] = r.out[i, j] / r.total[i]

    @T.macro
    def consume(
        Out: Any,
        parts: Any,
        states: Any,
        counters: Any,
        memory: PairMemory,
        registers: list[PairRegisters],
        cursor: Any,
        shares: TileShares,
        share: Any,
        tile: Any,
        thread: Any,
        counts: LaneCounts | None,
        group: int,
    ) -> None:
        r, own = registers[group], shares.first + share
        begin(block, memory, cursor, shares, share, counts)
        done = T.alloc_var("int32", init=0)
        rows = T.alloc_var("int32", init=0)
        while cursor[PLACE] < cursor[END]:
            enter_row(block, memory, cursor)
            start, steps = start_of(block, cursor), steps_of(block, cursor)
            if steps > 0:
                T.clear(r.out)
                T.clear(r.total)
                T.fill(r.maximum, LEAST)
                T.mbarrier_wait_parity(memory.Q_full[0], rows & 1)
                for step in T.serial(steps):
                    left = memory.lengths[cursor[SEQUENCE]] - (start + step) * GROUPS * KEYS
                    attend(block, memory, r, (done + step) & 1, left, thread, step == steps - 1, group)
                done = done + steps
                rows = rows + 1
                add_totals(memory, r, group)
                end_row(Out, parts, states, counters, memory, r, cursor, shares, own, tile, start, steps, group)
            advance(block, cursor)

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        cache: T.Tensor(cache_shape, dtype),
        table: T.Tensor(table_shape, "int32"),
        lengths: T.Tensor(lengths_shape, "int32"),
        Out: T.Tensor(o_shape, dtype),
        parts: T.Tensor(parts_shape, "float32"),
        states: T.Tensor(states_shape, "float32"),
        counters: T.Tensor(counters_shape, "int32"),
    ):
        with block.launch() as number:
            memory = allocate(block)
            registers = allocate_registers(block)
            cursor = T.alloc_local((SLOTS,), "int32")
            thread = T.get_thread_binding()
            tile, share = block.place(number)
            if block.cluster > 1:
                wait_for_kernel_before(let_next_start=False)
            places, counts = count_places(block, memory, lengths, table, (GROUPS + 1) * GROUP, thread)
            shares = TileShares(places, T.min(places, block.shares), tile * block.shares)
            if share < shares.number:
                if thread < GROUP:
                    T.set_max_nreg(REGISTERS[0], 0)
                    if thread < 32:
                        produce(block, memory, Q, cache, table, cursor, shares, share, tile, counts)
                else:
                    work = partial(consume, Out, parts, states, counters, memory, registers)
                    place = cursor, shares, share, tile, thread, counts
                    run_consumers(GROUPS, REGISTERS[1], thread, partial(work, *place), 0)
            if block.cluster > 1:
                T.cluster_sync()  # no block may leave while a peer still writes to it

    return decoding(main, parts_shape, states_shape, counters_shape)
