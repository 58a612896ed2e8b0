"""Decoding by latent attention: equal shares of all keys, as in ``paged_decode``; two groups divide the output."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.hopper import GROUP, NUM_SMS, require_shared, run_consumers
from kernels.latent_decode.alternating import latent_decode_in_pairs
from kernels.latent_decode.rows import GROUPS, MEETING, LatentRows
from kernels.operands import require
from kernels.paged_decode.kernel import (
    BARRIER,
    BLOCK,
    COUNT,
    END,
    FUNCTIONS,
    HEAD,
    LEAST,
    PLACE,
    ROWS,
    SEQUENCE,
    SLOTS,
    STEPS,
    Shares,
    advance,
    begin,
    combine,
    decoding,
    enter_row,
    measure,
    signal,
)

REGISTERS = (40, 232)  # of a thread (producer, consumer)
ROW_COST = 2  # of a row, in pairs


@dataclass(frozen=True, kw_only=True)
class LatentBlock(LatentRows):
    """A problem's sizes and those of a block of threads. Raises ValueError for what cannot work."""

    block_N: int
    num_stages: int
    share_scores: bool
    blocks: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.block_N in (16, 32, 64) and self.page % self.block_N == 0,
            f"block_N={self.block_N} is not 16, 32 or 64, or does not divide pages of {self.page} tokens",
        )
        require(not self.share_scores or self.block_N == 64, f"share_scores is for block_N=64, not {self.block_N}")
        require(self.num_stages >= 2, f"num_stages={self.num_stages}: the producer needs 2 stages to run ahead")
        shared_scores = self.share_scores * ROWS * (2 * self.block_N + 4 * 2 * GROUPS)
        blocks = self.row_bytes * (ROWS + self.num_stages * self.block_N)
        require_shared(blocks + shared_scores + 8 * self.sequences)

    @property
    def walked_heads(self) -> int:
        """As a cursor counts them."""
        return self.tiles

    @property
    def scored(self) -> int:
        """Keys of a block for which a group computes the scores."""
        return self.block_N // GROUPS if self.share_scores else self.block_N

    def first_scored(self, group: int) -> int:
        return group * self.scored if self.share_scores else 0

    def count(self, length: Any) -> Any:
        """Blocks of keys of a sequence."""
        return T.truncdiv(length + self.block_N - 1, self.block_N)


@dataclass(frozen=True)
class LatentPages:
    """Queries and stages of keys in shared memory, each as the halves of the values and the rest, with barriers."""

    Q: list[Any]
    Q_rest: Any
    K: list[Any]
    K_rest: Any
    lengths: Any
    ends: Any
    said: Any
    full: Any
    empty: Any
    P: Any  # of both groups
    states: Any  # maxima and totals that the groups tell each other


@dataclass(frozen=True)
class LatentRegisters:
    """Scores, their 16-bit copy, a half of the output, and the softmax's state of each row."""

    S: Any
    P: Any
    out: Any
    maximum: Any
    before: Any
    scale: Any
    sum: Any
    total: Any


@T.macro
def allocate(block: LatentBlock) -> LatentPages:
    Q = [T.alloc_shared((ROWS, block.width), block.dtype) for _ in range(GROUPS)]
    Q_rest = T.alloc_shared((ROWS, block.rotary), block.dtype)
    K = [T.alloc_shared((block.num_stages, block.block_N, block.width), block.dtype) for _ in range(GROUPS)]
    K_rest = T.alloc_shared((block.num_stages, block.block_N, block.rotary), block.dtype)
    lengths = T.alloc_shared((block.sequences,), "int32")
    ends = T.alloc_shared((block.sequences,), "int32")
    said = T.alloc_shared((GROUPS,), "int32")
    full = T.alloc_barrier([1] * block.num_stages)
    empty = T.alloc_barrier([GROUPS] * block.num_stages)
    P = T.alloc_shared((ROWS, block.block_N), block.dtype) if block.share_scores else None
    states = T.alloc_shared((2, GROUPS, ROWS), "float32") if block.share_scores else None
    return LatentPages(Q, Q_rest, K, K_rest, lengths, ends, said, full, empty, P, states)


@T.macro
def allocate_registers(block: LatentBlock) -> list[LatentRegisters]:
    S = [T.alloc_fragment((ROWS, block.scored), "float32") for _ in range(GROUPS)]
    P = [T.alloc_fragment((ROWS, block.scored), block.dtype) for _ in range(GROUPS)]
    out = [T.alloc_fragment((ROWS, block.width), "float32") for _ in range(GROUPS)]
    rows = [[T.alloc_fragment((ROWS,), "float32") for _ in range(5)] for _ in range(GROUPS)]
    return [LatentRegisters(S[group], P[group], out[group], *rows[group]) for group in range(GROUPS)]


@T.macro
def produce(
    block: LatentBlock, memory: LatentPages, cache: Any, table: Any, cursor: Any, shares: Shares, number: Any
) -> None:
    size, num_stages, width = block.block_N, block.num_stages, block.width
    begin(block, memory, cursor, shares, number)
    done = T.alloc_var("int32", init=0)
    page = T.alloc_var("int32")
    while cursor[PLACE] < cursor[END]:
        enter_row(block, memory, cursor)
        for step in T.serial(cursor[STEPS]):
            first = (cursor[BLOCK] + step) * size
            page = table[cursor[SEQUENCE], T.truncdiv(first, block.page)]
            token = T.truncmod(first, block.page)
            stage = (done + step) % num_stages
            T.mbarrier_wait_parity(memory.empty[stage], (((done + step) // num_stages) & 1) ^ 1)
            for half in list(range(GROUPS)):
                T.tma_copy(
                    cache[page, token : token + size, half * width : (half + 1) * width],
                    memory.K[half][stage, :, :],
                    barrier=memory.full[stage],
                )
            T.tma_copy(
                cache[page, token : token + size, block.depth : block.depth + block.rotary],
                memory.K_rest[stage, :, :],
                barrier=memory.full[stage],
            )
            if T.shuffle_elect(32):
                T.mbarrier_arrive(memory.full[stage])
        done = done + cursor[STEPS]
        advance(block, cursor)


@T.macro
def hide(block: LatentBlock, memory: LatentPages, stage: Any, left: Any, group: int) -> None:
    """Make zeros of what lies beyond the length: 0 times something else need not be 0."""
    for i, j in T.Parallel(block.block_N, block.width):
        if i >= left:
            memory.K[group][stage, i, j] = T.cast(0, block.dtype)
    T.fence_proxy_async()
    T.sync_threads(MEETING, GROUPS * GROUP)


@T.macro
def exchange(memory: LatentPages, own: Any, which: int, group: int, larger: bool) -> None:
    """Make of a group's maxima or totals those of both groups."""
    T.copy(own, memory.states[which, group, :])
    T.sync_threads(MEETING, GROUPS * GROUP)
    for i in T.Parallel(ROWS):
        other = memory.states[which, 1 - group, i]
        own[i] = T.max(own[i], other) if larger else own[i] + other


@T.macro
def score(block: LatentBlock, memory: LatentPages, r: LatentRegisters, stage: Any, left: Any, group: int) -> None:
    """S = Q Cᵀ of a group's keys."""
    first, size = block.first_scored(group), block.scored
    for half in list(range(GROUPS)):
        T.wgmma_gemm(
            memory.Q[half],
            memory.K[half][stage, first : first + size, :],
            r.S,
            transpose_B=True,
            clear_accum=half == 0,
        )
    T.wgmma_gemm(memory.Q_rest, memory.K_rest[stage, first : first + size, :], r.S, transpose_B=True)
    T.wait_wgmma(0)
    T.warpgroup_fence_operand(r.S, num_regs=ROWS * size // GROUP)
    if left < block.block_N:
        for i, j in T.Parallel(ROWS, size):
            r.S[i, j] = T.if_then_else(first + j < left, r.S[i, j], LEAST)


@T.macro
def attend(
    block: LatentBlock,
    memory: LatentPages,
    r: LatentRegisters,
    stage: Any,
    parity: Any,
    left: Any,
    thread: Any,
    group: int,
) -> None:
    """Add a block of keys, of which the first ``left`` are the sequence's, to a group's half of the output."""
    first, size, to_log2 = block.first_scored(group), block.scored, block.to_log2
    T.mbarrier_wait_parity(memory.full[stage], parity)
    if left < block.block_N:
        hide(block, memory, stage, left, group)
    score(block, memory, r, stage, left, group)
    T.copy(r.maximum, r.before)
    T.reduce_max(r.S, r.maximum, dim=1, clear=False)
    if block.share_scores:
        exchange(memory, r.maximum, 0, group, True)
    for i in T.Parallel(ROWS):
        r.scale[i] = T.exp2((r.before[i] - r.maximum[i]) * to_log2)
    for i, j in T.Parallel(ROWS, size):
        r.S[i, j] = T.exp2(r.S[i, j] * to_log2 - r.maximum[i] * to_log2)
    T.reduce_sum(r.S, r.sum, dim=1)
    for i in T.Parallel(ROWS):
        r.total[i] = r.total[i] * r.scale[i] + r.sum[i]
    if block.share_scores:
        T.copy(r.S, memory.P[:, first : first + size])
        T.fence_proxy_async()
    else:
        T.copy(r.S, r.P)
    for i, j in T.Parallel(ROWS, block.width):
        r.out[i, j] *= r.scale[i]
    if block.share_scores:
        T.sync_threads(MEETING, GROUPS * GROUP)
        T.wgmma_gemm(memory.P, memory.K[group][stage, :, :], r.out)
    else:
        T.wgmma_gemm(r.P, memory.K[group][stage, :, :], r.out)
    T.wait_wgmma(0)
    T.warpgroup_fence_operand(r.out, num_regs=ROWS * block.width // GROUP)
    signal(thread, memory.empty, stage)


def latent_decode(
    problem: Problem,
    *,
    block_N: int,
    num_stages: int,
    share_scores: bool = False,
    alternate: bool = False,
    row_cost: int = ROW_COST,
    warps_look_up: bool = False,
    num_sms: int = NUM_SMS,
) -> Program:
    """O[B,H,D] = softmax(Q Cᵀ / sqrt(D + R)) C[:, :D] over the tokens of each sequence, which lie in pages.

    A tile of 64 heads and the blocks of keys of one sequence are a row of places. They are cut into equal shares as in
    ``kernels.paged_decode``. One warp loads blocks of the cache by TMA, each once for keys and values. Each of the two
    consumer groups has half of the output's columns in registers.

    Levers:

    - ``block_N``: keys of a block; it divides a page.
    - ``num_stages`` of the ring.
    - ``share_scores``: each group computes the scores of half of the keys, and they meet twice for each block, to tell
      the maxima and the weights. Else both compute all scores, and nothing passes between them.
    - ``alternate``: the groups have the scores of different blocks, as ``alternating`` says. Two tiles of heads share
      each load. The next pair is brought into the L2 cache. The output's parts pass as they lie in registers.
    - ``row_cost``, in pairs, and ``warps_look_up``: as in ``kernels.paged_decode``, for groups that alternate.

    Limits: sm_90a; bf16 and fp16; heads in multiples of 64; rows of 512 and 64. It needs counters, zero at first,
    which every launch leaves zero. Launches on one workspace must not overlap. With ``alternate`` the parts of a
    row are added to the last one, so their order differs between launches.
    """
    if alternate:
        require((block_N, num_stages, share_scores) == (64, 2, False), "alternate is for block_N=64 and num_stages=2")
        return latent_decode_in_pairs(problem, row_cost, warps_look_up, num_sms)
    require(row_cost == ROW_COST and not warps_look_up, "row_cost and warps_look_up are for groups that alternate")
    block = LatentBlock(
        **LatentBlock.sizes(problem),
        block_N=block_N,
        num_stages=num_stages,
        share_scores=share_scores,
        blocks=num_sms,
    )
    width, depth = block.width, block.depth
    parts_shape, states_shape = (2 * block.blocks, ROWS, depth), (2 * block.blocks, 2, ROWS)
    counters_shape = (block.sequences, block.walked_heads, GROUPS)
    q_shape, cache_shape, table_shape, lengths_shape = problem.inputs
    o_shape, dtype = problem.output_shape, block.dtype

    @T.macro
    def take_queries(memory: LatentPages, Q: Any, cursor: Any, group: int) -> None:
        """Each group loads its half, and the second the rest."""
        T.sync_threads(MEETING, GROUPS * GROUP)  # the other has done with the queries before
        for i, j in T.Parallel(ROWS, width):
            memory.Q[group][i, j] = Q[cursor[SEQUENCE], cursor[HEAD] * ROWS + i, group * width + j]
        if group == 1:
            for i, j in T.Parallel(ROWS, block.rotary):
                memory.Q_rest[i, j] = Q[cursor[SEQUENCE], cursor[HEAD] * ROWS + i, depth + j]
        T.fence_proxy_async()
        T.sync_threads(MEETING, GROUPS * GROUP)

    @T.macro
    def leave_part(parts: Any, states: Any, r: LatentRegisters, part: Any, group: int) -> None:
        for i, j in T.Parallel(ROWS, width):
            parts[part, i, group * width + j] = r.out[i, j]
        for i in T.Parallel(ROWS):  # both groups have the same
            states[part, 0, i] = r.maximum[i]
            states[part, 1, i] = r.total[i]

    @T.macro
    def consume(
        Q: Any,
        Out: Any,
        parts: Any,
        states: Any,
        counters: Any,
        memory: LatentPages,
        registers: list[LatentRegisters],
        cursor: Any,
        shares: Shares,
        number: Any,
        thread: Any,
        group: int,
    ) -> None:
        r = registers[group]
        begin(block, memory, cursor, shares, number)
        done = T.alloc_var("int32", init=0)
        while cursor[PLACE] < cursor[END]:
            enter_row(block, memory, cursor)
            take_queries(memory, Q, cursor, group)
            T.clear(r.out)
            T.clear(r.total)
            T.fill(r.maximum, LEAST)
            for step in T.serial(cursor[STEPS]):
                left = memory.lengths[cursor[SEQUENCE]] - (cursor[BLOCK] + step) * block_N
                stage, parity = (done + step) % num_stages, ((done + step) // num_stages) & 1
                attend(block, memory, r, stage, parity, left, thread, group)
            done = done + cursor[STEPS]
            if share_scores:
                exchange(memory, r.total, 1, group, False)
            if cursor[STEPS] == cursor[COUNT]:
                for i, j in T.Parallel(ROWS, width):
                    Out[cursor[SEQUENCE], cursor[HEAD] * ROWS + i, group * width + j] = r.out[i, j] / r.total[i]
            else:
                leave_part(parts, states, r, number * 2 + T.if_then_else(cursor[BLOCK] == 0, 1, 0), group)
                if (
                    T.call_extern(
                        "int32",
                        "ends_row",
                        T.address_of(counters[cursor[SEQUENCE], cursor[HEAD], group]),
                        T.address_of(memory.said[group]),
                        cursor[STEPS],
                        cursor[COUNT],
                        BARRIER + group,
                    )
                    != 0
                ):
                    for column in T.serial(width // GROUP):
                        at = group * width + column * GROUP + thread % GROUP
                        combine(block, Out, parts, states, cursor, shares, at)
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
        with T.Kernel(block.blocks, threads=(GROUPS + 1) * GROUP, prelude=FUNCTIONS) as number:
            memory = allocate(block)
            registers = allocate_registers(block)
            cursor = T.alloc_local((SLOTS,), "int32")
            thread = T.get_thread_binding()
            measure(block, memory, lengths, (GROUPS + 1) * GROUP, thread)
            places = memory.ends[block.sequences - 1] * block.walked_heads
            shares = Shares(places, T.min(places, block.blocks))
            if number < shares.number:
                if thread < GROUP:
                    T.set_max_nreg(REGISTERS[0], 0)
                    if thread < 32:
                        produce(block, memory, cache, table, cursor, shares, number)
                else:
                    work = partial(
                        consume, Q, Out, parts, states, counters, memory, registers, cursor, shares, number, thread
                    )
                    run_consumers(GROUPS, REGISTERS[1], thread, work, 0)

    return decoding(main, parts_shape, states_shape, counters_shape)
