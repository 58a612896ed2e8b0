"""The second launch: the state goes from chunk to chunk, and each chunk's outputs follow from the state before it.

The state lies transposed, V columns by K. So a block has 64 columns of V as the rows of a WGMMA. What its products make
is, in registers, the left operand of the next one: nothing of the chain from state to state leaves registers.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import tilelang.language as T
from tilelang.layout import make_full_bank_swizzled_layout

from kernels.gated_delta.sizes import CHUNK, COLUMNS, Between, DeltaSizes, ready
from kernels.hopper import GROUP, require_shared, run_consumers
from kernels.operands import require

REGISTERS = (40, 232)  # of a thread (producer, consumer) with two consumer groups
TILE = COLUMNS * CHUNK
CHAIN_BARRIER = 8  # named barriers of the consumer groups; TileLang takes them from 0
OUTPUT_BARRIER = 9


@dataclass(frozen=True, kw_only=True)
class DeltaRing:
    """Levers of the launch. Raises ValueError for what cannot work."""

    sizes: DeltaSizes
    num_stages: int
    output_group: bool
    slots: int

    def __post_init__(self) -> None:
        require(self.num_stages >= 1, f"num_stages={self.num_stages} is not positive")
        require(self.slots >= 1, f"slots={self.slots} is not positive")
        stage = CHUNK * 3 * self.sizes.depth + 2 * TILE + 4 * CHUNK
        slot = COLUMNS * self.sizes.depth + TILE if self.output_group else 0
        require_shared(2 * (self.num_stages * stage + self.slots * slot + TILE))

    @property
    def consumers(self) -> int:
        return 2 if self.output_group else 1

    @property
    def threads(self) -> int:
        return GROUP * (1 + self.consumers)


@dataclass(frozen=True)
class ChunkStages:
    """Stages of what a chunk needs, slots of what the outputs need of the chain, and their barriers."""

    erased: Any
    keys: Any
    queries: Any
    written: Any
    weights: Any
    gates: Any
    states: Any
    added: Any
    out: Any
    full: Any
    empty: Any
    told: Any
    read: Any


@dataclass(frozen=True)
class StateRegisters:
    """The state, what is added, their 16-bit copies, and the outputs: of the chain, or of a group of their own."""

    state: Any
    state16: Any
    added: Any
    added16: Any
    late16: Any
    out: Any  # columns by tokens
    tokens: Any  # tokens by columns


@T.macro
def allocate(ring: DeltaRing) -> ChunkStages:
    depth, dtype = ring.sizes.depth, ring.sizes.dtype
    erased, keys, queries = [T.alloc_shared((ring.num_stages, CHUNK, depth), dtype) for _ in range(3)]
    written = T.alloc_shared((ring.num_stages, COLUMNS, CHUNK), dtype)
    weights = T.alloc_shared((ring.num_stages, CHUNK, CHUNK), dtype)
    gates = T.alloc_shared((ring.num_stages, 2 * CHUNK), "float32")
    states = T.alloc_shared((ring.slots, COLUMNS, depth), dtype) if ring.output_group else None
    added = T.alloc_shared((ring.slots, COLUMNS, CHUNK), dtype) if ring.output_group else None
    out = T.alloc_shared((CHUNK, COLUMNS), dtype)
    T.annotate_layout({written: make_full_bank_swizzled_layout(written)})
    full = T.alloc_barrier([2] * ring.num_stages)  # by the warp of the tiles and that of the gates
    empty = T.alloc_barrier([ring.consumers] * ring.num_stages)
    told = T.alloc_barrier([1] * ring.slots)
    read = T.alloc_barrier([1] * ring.slots)
    return ChunkStages(erased, keys, queries, written, weights, gates, states, added, out, full, empty, told, read)


@T.macro
def allocate_registers(ring: DeltaRing) -> StateRegisters:
    state = T.alloc_fragment((COLUMNS, ring.sizes.depth), "float32")
    state16 = T.alloc_fragment((COLUMNS, ring.sizes.depth), ring.sizes.dtype)
    added = T.alloc_fragment((COLUMNS, CHUNK), "float32")
    added16 = T.alloc_fragment((COLUMNS, CHUNK), ring.sizes.dtype)
    late16 = T.alloc_fragment((COLUMNS, CHUNK), ring.sizes.dtype)
    out = T.alloc_fragment((COLUMNS, CHUNK), "float32")
    tokens = T.alloc_fragment((CHUNK, COLUMNS), "float32")
    return StateRegisters(state, state16, added, added16, late16, out, tokens)


@T.macro
def done(fragment: Any, left: int) -> None:
    """All products but the last ``left`` batches have added to their sums."""
    T.wait_wgmma(left)
    T.warpgroup_fence_operand(fragment, num_regs=fragment.shape[0] * fragment.shape[1] // GROUP)


@T.macro
def produce(
    ring: DeltaRing, shared: ChunkStages, Q: Any, K: Any, between: Between, column: Any, h: Any, b: Any
) -> None:
    depth = ring.sizes.depth
    for n in T.serial(ring.sizes.chunks):
        stage, first = n % ring.num_stages, n * CHUNK
        row = b * ring.sizes.tokens + first
        full = shared.full
        T.mbarrier_wait_parity(shared.empty[stage], ((n // ring.num_stages) & 1) ^ 1)
        T.tma_copy(between.erased[row : row + CHUNK, h, 0:depth], shared.erased[stage, :, :], barrier=full[stage])
        T.tma_copy(
            between.written[b, h, n, column : column + COLUMNS, 0:CHUNK],
            shared.written[stage, :, :],
            barrier=full[stage],
        )
        T.tma_copy(K[b, first : first + CHUNK, h, 0:depth], shared.keys[stage, :, :], barrier=full[stage])
        T.tma_copy(Q[b, first : first + CHUNK, h, 0:depth], shared.queries[stage, :, :], barrier=full[stage])
        T.tma_copy(between.weights[row : row + CHUNK, h, 0:CHUNK], shared.weights[stage, :, :], barrier=full[stage])
        ready(full, stage)


@T.macro
def produce_gates(ring: DeltaRing, shared: ChunkStages, gates: Any, h: Any, b: Any, lane: Any) -> None:
    """A second warp, since it waits for memory: the gates are few, and need no TMA."""
    for n in T.serial(ring.sizes.chunks):
        stage = n % ring.num_stages
        T.mbarrier_wait_parity(shared.empty[stage], ((n // ring.num_stages) & 1) ^ 1)
        for part in list(range(2 * CHUNK // 32)):
            at = part * 32 + lane
            shared.gates[stage, at] = gates[b, h, n, T.truncdiv(at, CHUNK), T.truncmod(at, CHUNK)]
        T.sync_warp()
        ready(shared.full, stage)


@T.macro
def add(ring: DeltaRing, shared: ChunkStages, r: StateRegisters, stage: Any) -> None:
    """What the tokens add, from the state before the chunk."""
    T.copy(shared.written[stage, :, :], r.added)
    T.wgmma_gemm(r.state16, shared.erased[stage, :, :], r.added, transpose_B=True)


@T.macro
def advance(ring: DeltaRing, shared: ChunkStages, r: StateRegisters, stage: Any) -> None:
    """The state after the chunk, under way."""
    for i, j in T.Parallel(COLUMNS, CHUNK):
        r.late16[i, j] = r.added[i, j] * shared.gates[stage, CHUNK + j]
    for i, j in T.Parallel(COLUMNS, ring.sizes.depth):
        r.state[i, j] *= shared.gates[stage, CHUNK - 1]
    T.wgmma_gemm(r.late16, shared.keys[stage, :, :], r.state)


@T.macro
def store(shared: ChunkStages, Out: Any, b: Any, first: Any, h: Any, column: Any, thread: Any) -> None:
    """One thread sends the tile of outputs, which lies in shared memory, by TMA."""
    if thread % GROUP < 32:
        T.tma_copy(shared.out, Out[b, first : first + CHUNK, h, column : column + COLUMNS])


@T.macro
def chain(
    ring: DeltaRing,
    shared: ChunkStages,
    r: StateRegisters,
    Out: Any,
    State: Any,
    column: Any,
    h: Any,
    b: Any,
    thread: Any,
) -> None:
    """Go from chunk to chunk; without a group for the outputs, make them too."""
    T.clear(r.state)
    for n in T.serial(ring.sizes.chunks):
        stage, slot = n % ring.num_stages, n % ring.slots
        T.copy(r.state, r.state16)
        T.mbarrier_wait_parity(shared.full[stage], (n // ring.num_stages) & 1)
        add(ring, shared, r, stage)
        if ring.output_group:
            T.mbarrier_wait_parity(shared.read[slot], ((n // ring.slots) & 1) ^ 1)
            T.copy(r.state16, shared.states[slot, :, :])
            done(r.added, 0)
            T.copy(r.added, r.added16)
            advance(ring, shared, r, stage)
            T.copy(r.added16, shared.added[slot, :, :])
            T.fence_proxy_async()
            T.sync_threads(CHAIN_BARRIER, GROUP)
            if thread % GROUP == 0:
                T.mbarrier_arrive(shared.told[slot])
            done(r.state, 0)
        else:
            T.wgmma_gemm(r.state16, shared.queries[stage, :, :], r.out, transpose_B=True, clear_accum=True)
            done(r.added, 1)
            T.copy(r.added, r.added16)
            advance(ring, shared, r, stage)
            done(r.out, 1)
            for i, j in T.Parallel(COLUMNS, CHUNK):
                r.out[i, j] *= shared.gates[stage, j]
            T.wgmma_gemm(r.added16, shared.weights[stage, :, :], r.out, transpose_B=True)
            done(r.state, 1)
            done(r.out, 0)
            T.tma_store_wait(0)
            T.sync_threads(CHAIN_BARRIER, GROUP)
            for i, j in T.Parallel(COLUMNS, CHUNK):
                shared.out[j, i] = T.cast(r.out[i, j], ring.sizes.dtype)
            T.fence_proxy_async()
            T.sync_threads(CHAIN_BARRIER, GROUP)
            store(shared, Out, b, n * CHUNK, h, column, thread)
        if thread % GROUP == 0:
            T.mbarrier_arrive(shared.empty[stage])
    for i, j in T.Parallel(COLUMNS, ring.sizes.depth):
        State[b, h, j, column + i] = r.state[i, j]


@T.macro
def outputs(
    ring: DeltaRing, shared: ChunkStages, r: StateRegisters, Out: Any, column: Any, h: Any, b: Any, thread: Any
) -> None:
    """The second group: outputs of a chunk, while the first goes on with the state."""
    for n in T.serial(ring.sizes.chunks):
        stage, slot = n % ring.num_stages, n % ring.slots
        T.mbarrier_wait_parity(shared.full[stage], (n // ring.num_stages) & 1)
        T.mbarrier_wait_parity(shared.told[slot], (n // ring.slots) & 1)
        T.wgmma_gemm(
            shared.queries[stage, :, :], shared.states[slot, :, :], r.tokens, transpose_B=True, clear_accum=True
        )
        done(r.tokens, 0)
        for i, j in T.Parallel(CHUNK, COLUMNS):
            r.tokens[i, j] *= shared.gates[stage, i]
        T.wgmma_gemm(shared.weights[stage, :, :], shared.added[slot, :, :], r.tokens, transpose_B=True)
        done(r.tokens, 0)
        T.tma_store_wait(0)
        T.sync_threads(OUTPUT_BARRIER, GROUP)  # all have read the slot, and the store before has read its tile
        if thread % GROUP == 0:
            T.mbarrier_arrive(shared.read[slot])
            T.mbarrier_arrive(shared.empty[stage])
        T.copy(r.tokens, shared.out)
        T.fence_proxy_async()
        T.sync_threads(OUTPUT_BARRIER, GROUP)
        store(shared, Out, b, n * CHUNK, h, column, thread)


@T.macro
def consume(
    ring: DeltaRing,
    shared: ChunkStages,
    r: StateRegisters,
    Out: Any,
    State: Any,
    column: Any,
    h: Any,
    b: Any,
    thread: Any,
    group: int,
) -> None:
    if group == 0:
        chain(ring, shared, r, Out, State, column, h, b, thread)
    else:
        outputs(ring, shared, r, Out, column, h, b, thread)


def specialized(ring: DeltaRing) -> Any:
    """The macro of the launch with a producer warp group, and one or two of consumers."""
    sizes = ring.sizes

    @T.macro
    def run(Q: Any, K: Any, Out: Any, State: Any, between: Between) -> None:
        with T.Kernel(sizes.width // COLUMNS, sizes.heads, sizes.batches, threads=ring.threads) as (tile, h, b):
            shared = allocate(ring)
            registers = allocate_registers(ring)
            thread = T.get_thread_binding()
            column = tile * COLUMNS
            if thread < GROUP:
                if ring.output_group:
                    T.set_max_nreg(REGISTERS[0], 0)
                if thread < 32:
                    produce(ring, shared, Q, K, between, column, h, b)
                else:
                    if thread < 64:
                        produce_gates(ring, shared, between.gates, h, b, thread - 32)
            else:
                work = partial(consume, ring, shared, registers, Out, State, column, h, b, thread)
                run_consumers(ring.consumers, REGISTERS[1] if ring.output_group else None, thread, work, 0)

    return run


def pipelined(sizes: DeltaSizes, num_stages: int) -> Any:
    """The macro of the launch as TileLang pipelines it: one warp group, and its own waits."""
    depth, dtype = sizes.depth, sizes.dtype

    @T.macro
    def run(Q: Any, K: Any, Out: Any, State: Any, between: Between) -> None:
        with T.Kernel(sizes.width // COLUMNS, sizes.heads, sizes.batches, threads=GROUP) as (tile, h, b):
            erased, keys, queries = [T.alloc_shared((CHUNK, depth), dtype) for _ in range(3)]
            written = T.alloc_shared((COLUMNS, CHUNK), dtype)
            weights = T.alloc_shared((CHUNK, CHUNK), dtype)
            tokens = T.alloc_shared((CHUNK, COLUMNS), dtype)
            gates = T.alloc_shared((2, CHUNK), "float32")
            state = T.alloc_fragment((COLUMNS, depth), "float32")
            state16 = T.alloc_fragment((COLUMNS, depth), dtype)
            added = T.alloc_fragment((COLUMNS, CHUNK), "float32")
            added16 = T.alloc_fragment((COLUMNS, CHUNK), dtype)
            out = T.alloc_fragment((COLUMNS, CHUNK), "float32")
            column = tile * COLUMNS
            T.clear(state)
            for n in T.Pipelined(sizes.chunks, num_stages=num_stages):
                first = n * CHUNK
                row = b * sizes.tokens + first
                T.copy(between.erased[row : row + CHUNK, h, 0:depth], erased)
                T.copy(K[b, first : first + CHUNK, h, 0:depth], keys)
                T.copy(Q[b, first : first + CHUNK, h, 0:depth], queries)
                T.copy(between.written[b, h, n, column : column + COLUMNS, 0:CHUNK], written)
                T.copy(between.weights[row : row + CHUNK, h, 0:CHUNK], weights)
                T.copy(between.gates[b, h, n, 0:2, 0:CHUNK], gates)
                T.copy(state, state16)
                T.copy(written, added)
                T.gemm(state16, erased, added, transpose_B=True)
                T.gemm(state16, queries, out, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(COLUMNS, CHUNK):
                    out[i, j] *= gates[0, j]
                T.copy(added, added16)
                T.gemm(added16, weights, out, transpose_B=True)
                for i, j in T.Parallel(COLUMNS, CHUNK):
                    added16[i, j] = added[i, j] * gates[1, j]
                for i, j in T.Parallel(COLUMNS, depth):
                    state[i, j] *= gates[0, CHUNK - 1]
                T.gemm(added16, keys, state)
                for i, j in T.Parallel(COLUMNS, CHUNK):
                    tokens[j, i] = out[i, j]
                T.copy(tokens, Out[b, first : first + CHUNK, h, column : column + COLUMNS])
            for i, j in T.Parallel(COLUMNS, depth):
                State[b, h, j, column + i] = state[i, j]

    return run
