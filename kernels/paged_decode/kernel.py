"""Decoding from a cache in pages: the blocks of all sequences in a row, cut into as many equal shares as blocks run."""

from dataclasses import dataclass
from math import e, gcd, log2, sqrt
from typing import Any, Protocol, Self

import tilelang.language as T

from harness.iteration import Problem, Program, Workspace
from kernels.hopper import GROUP, NUM_SMS, SHARED_BYTES_MAX, SHARED_BYTES_RESERVED, wait_for_kernel_before
from kernels.operands import ceildiv, require

ROWS = 64  # the M of a WGMMA; only the heads that share one head of keys are of use
LEAST = -(2.0**100)  # a masked score: a power of two, so that scale * LEAST - scale * LEAST is 0 in one FMA too
REGISTERS = {1: None, 2: (40, 208)}  # of a thread (producer, consumer), by blocks of an SM
BARRIER = 8  # the named barrier of the consumers; TileLang takes them from 0
HEADS_AT_ONCE, PARTS_AT_ONCE = 8, 2  # of a combination: their loads are in flight together
LANES = 32  # of a warp
SEQUENCES_MAX = 8 * LANES  # that a warp counts by itself: each lane has its own in registers
LINE_BYTES = 128  # of the caches

# Of a cursor: a sequence, its blocks of keys, a head of keys, a block in the row of the two; a place in all rows, where
# the share ends, and the steps in this row.
SEQUENCE, COUNT, HEAD, BLOCK, PLACE, END, STEPS, SLOTS = range(8)

FUNCTIONS = r"""
// Whether these steps were the last of a row's. The one that sees so finds all parts of the row written. Where those of
// the other shares are, no one else needs this one, and no fence has to wait until it is written.
static __device__ __forceinline__ int ends_row(int *counter, int *said, int steps, int all, int barrier) {
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
  if (threadIdx.x % 128 == 0) {
    int written;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(written) : "l"(counter) : "memory");
    if (written + steps != all) {
      __threadfence();  // of what the barrier has shown too
      written = atomicAdd(counter, steps);
      __threadfence();
    }
    *said = written + steps == all;
    if (*said) *counter = 0;
  }
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
  return *said;
}
"""
LINE_FUNCTION = r"""
// Bring a line of a tensor into the L2 cache, where its reads will find it.
static __device__ __forceinline__ void bring_line(const void *tensor, int offset) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char *>(tensor) + offset));
}
"""


def require_counts(warps_look_up: bool, sequences: int) -> None:
    """Raise ValueError where a warp's lanes cannot hold the counts of all sequences."""
    require(
        not warps_look_up or sequences <= SEQUENCES_MAX,
        f"warps_look_up is for {SEQUENCES_MAX} sequences at most, not {sequences}",
    )


@dataclass(frozen=True, kw_only=True)
class PagedBlock:
    """A problem's sizes and those of a block of threads. Raises ValueError for what cannot work."""

    sequences: int
    heads: int
    kv_heads: int
    depth: int
    pages: int  # of a sequence
    page: int  # tokens of a page
    dtype: str
    block_N: int
    num_stages: int
    blocks_per_sm: int
    row_cost: int
    warps_look_up: bool
    bring_early: bool
    heads_together: bool
    num_sms: int

    @classmethod
    def of(cls, problem: Problem, **levers: Any) -> Self:
        require(problem.operator == "pageddecode", f"{problem}: operator '{problem.operator}' is not pageddecode")
        sequences, heads, kv_heads, depth, pages, page = problem.dims
        return cls(
            sequences=sequences,
            heads=heads,
            kv_heads=kv_heads,
            depth=depth,
            pages=pages,
            page=page,
            dtype=problem.input,
            **levers,
        )

    def __post_init__(self) -> None:
        require(self.dtype in ("float16", "bfloat16"), f"{self.dtype} inputs are not supported, only 16-bit ones")
        require(self.shared_heads <= ROWS, f"{self.shared_heads} heads share one of keys; a tile has {ROWS} rows")
        require(self.depth in (64, 128), f"heads of {self.depth} are not of 64 or 128")
        require(
            self.block_N % 16 == 0 and 16 <= self.block_N <= 128 and self.page % self.block_N == 0,
            f"block_N={self.block_N} is not a multiple of 16 up to 128 that divides pages of {self.page} tokens",
        )
        require(self.num_stages >= 2, f"num_stages={self.num_stages}: the producer needs 2 stages to run ahead")
        require(self.blocks_per_sm in REGISTERS, f"blocks_per_sm={self.blocks_per_sm} is not 1 or 2")
        require(self.row_cost >= 0, f"row_cost={self.row_cost} is below 0")
        require_counts(self.warps_look_up, self.sequences)
        require(
            self.warps_look_up or not self.bring_early, "bring_early needs warps_look_up, which reads what it brings"
        )
        require(
            not self.heads_together or self.blocks % self.kv_heads == 0,
            f"heads_together needs as many blocks of threads for each head of keys: {self.blocks} for {self.kv_heads}",
        )
        limit = SHARED_BYTES_MAX // self.blocks_per_sm - 2 * SHARED_BYTES_RESERVED
        require(
            self.shared_bytes <= limit,
            f"the tiles take {self.shared_bytes} bytes of shared memory; one block of {self.blocks_per_sm} has {limit}",
        )
        units = self.sequences * self.kv_heads * (self.pages * (self.page // self.block_N) + self.row_cost)
        require(units * self.blocks < 2**31, f"{units} blocks of keys overflow 32-bit indices")

    @property
    def shared_heads(self) -> int:
        """Heads of queries that share one of keys."""
        return self.heads // self.kv_heads

    @property
    def walked_heads(self) -> int:
        """Heads of keys that a share goes through."""
        return 1 if self.heads_together else self.kv_heads

    @property
    def shared_bytes(self) -> int:
        return 2 * self.depth * (ROWS + 2 * self.num_stages * self.block_N) + 8 * self.sequences

    @property
    def blocks(self) -> int:
        return self.num_sms * self.blocks_per_sm

    @property
    def to_log2(self) -> float:
        """The factor from q · k to an exponent of 2."""
        return log2(e) / sqrt(self.depth)

    def count(self, length: Any) -> Any:
        """Places of a sequence's row: its blocks of keys, and what a row costs."""
        return T.truncdiv(length + self.block_N - 1, self.block_N) + self.row_cost


@dataclass(frozen=True)
class Shares:
    """All places, and the shares that they are cut into: one for each block of threads, and none is empty."""

    places: Any
    number: Any

    def start(self, share: Any) -> Any:
        return T.truncdiv(share * self.places, self.number)

    def owner(self, place: Any) -> Any:
        """The share that a place is in."""
        return T.truncdiv((place + 1) * self.number - 1, self.places)

    def block_of(self, share: Any) -> Any:
        """The block of threads that has a share."""
        return share


@dataclass(frozen=True)
class HeadShares(Shares):
    """The shares of one head of keys. Blocks of threads next to one another have the same share of different heads."""

    heads: int
    head: Any

    def block_of(self, share: Any) -> Any:
        return share * self.heads + self.head


def shares_of(block: PagedBlock, places: Any, number: Any) -> tuple[Shares, Any]:
    """The shares that a block of threads has one of, and which."""
    if not block.heads_together:
        return Shares(places, T.min(places, block.blocks)), number
    heads = block.kv_heads
    return HeadShares(places, T.min(places, block.blocks // heads), heads, number % heads), number // heads


@dataclass(frozen=True)
class Pages:
    """Tiles in shared memory with the barriers that hand them over, and what a cursor and the threads look up."""

    Q: Any
    K: Any
    V: Any
    lengths: Any
    ends: Any  # of each sequence, in places of one head
    said: Any  # a word from thread to thread
    K_full: Any
    K_empty: Any
    V_full: Any
    V_empty: Any


@dataclass(frozen=True)
class DecodeRegisters:
    """Scores, their 16-bit copy, the output, and the softmax's state of each row."""

    S: Any
    P: Any
    out: Any
    maximum: Any
    before: Any
    scale: Any
    sum: Any
    total: Any


@T.macro
def allocate(block: PagedBlock) -> Pages:
    Q = T.alloc_shared((ROWS, block.depth), block.dtype)
    K = T.alloc_shared((block.num_stages, block.block_N, block.depth), block.dtype)
    V = T.alloc_shared((block.num_stages, block.block_N, block.depth), block.dtype)
    lengths = T.alloc_shared((block.sequences,), "int32")
    ends = T.alloc_shared((block.sequences,), "int32")
    said = T.alloc_shared((1,), "int32")
    K_full = T.alloc_barrier([1] * block.num_stages)
    K_empty = T.alloc_barrier([1] * block.num_stages)
    V_full = T.alloc_barrier([1] * block.num_stages)
    V_empty = T.alloc_barrier([1] * block.num_stages)
    return Pages(Q, K, V, lengths, ends, said, K_full, K_empty, V_full, V_empty)


@T.macro
def allocate_registers(block: PagedBlock) -> DecodeRegisters:
    S = T.alloc_fragment((ROWS, block.block_N), "float32")
    P = T.alloc_fragment((ROWS, block.block_N), block.dtype)
    out = T.alloc_fragment((ROWS, block.depth), "float32")
    rows = [T.alloc_fragment((ROWS,), "float32") for _ in range(5)]
    return DecodeRegisters(S, P, out, *rows)


@T.macro
def measure(block: PagedBlock, memory: Pages, lengths: Any, threads: int, thread: Any) -> None:
    """Copy the lengths, and count the places up to the end of each sequence.

    Each thread reads all lengths, since a loop of a known number of steps has many reads in flight.
    """
    for b in T.Parallel(block.sequences):
        memory.lengths[b] = lengths[b]
    T.sync_threads()
    end = T.alloc_var("int32")
    for i in T.serial(ceildiv(block.sequences, threads)):
        at = i * threads + thread
        if at < block.sequences:
            end = 0
            for b in T.serial(block.sequences):
                end = end + T.if_then_else(b <= at, block.count(memory.lengths[b]), 0)
            memory.ends[at] = end
    T.sync_threads()


@dataclass(frozen=True)
class LaneCounts:
    """Places of the sequences of a warp's lane, which lie one after another: of each, of all, and up to their end."""

    each: Any
    all: Any
    end: Any


@T.macro
def bring(tensor: Any, words: int, threads: int, thread: Any) -> None:
    """Bring a tensor of 32-bit words to the L2 cache."""
    lines = ceildiv(4 * words, LINE_BYTES)
    first = (0,) * len(tensor.shape)
    for i in T.serial(ceildiv(lines, threads)):
        if i * threads + thread < lines:
            T.call_extern("handle", "bring_line", T.address_of(tensor[first]), (i * threads + thread) * LINE_BYTES)


@T.macro
def look_up(block: PagedBlock, memory: Pages, lengths: Any, thread: Any) -> LaneCounts:
    """Copy the lengths, and count the places up to the end of each lane's sequences; no warp waits for another."""
    each = ceildiv(block.sequences, LANES)
    lane = T.truncmod(thread, LANES)
    length = T.alloc_var("int32")
    before = T.alloc_var("int32")
    counts = T.alloc_local((each,), "int32")
    own = T.alloc_var("int32", init=0)
    end = T.alloc_var("int32")
    for i in T.unroll(each):
        counts[i] = 0
        if lane * each + i < block.sequences:
            length = lengths[lane * each + i]
            memory.lengths[lane * each + i] = length  # every warp writes the same
            counts[i] = block.count(length)
        own = own + counts[i]
    end = own
    for step in [1, 2, 4, 8, 16]:
        before = T.shfl_up(end, step)
        end = end + T.if_then_else(lane >= step, before, 0)
    T.sync_warp()
    return LaneCounts(counts, own, end)


@T.macro
def enter_by_lane(block: PagedBlock, memory: Pages, cursor: Any, counts: LaneCounts) -> None:
    """Enter the place's row: its lane is the first that ends behind the place."""
    each = ceildiv(block.sequences, LANES)
    lane = T.alloc_var("int32")
    before = T.alloc_var("int32")
    end = T.alloc_var("int32")
    lane = T.cast(T.popcount(T.ballot(counts.end * block.walked_heads <= cursor[PLACE])), "int32")
    cursor[SEQUENCE] = lane * each
    before = T.shfl_sync(counts.end - counts.all, lane)
    end = before
    for i in T.unroll(each - 1):
        end = end + T.shfl_sync(counts.each[i], lane)
        behind = end * block.walked_heads <= cursor[PLACE]
        before = T.if_then_else(behind, end, before)
        cursor[SEQUENCE] += T.if_then_else(behind, 1, 0)
    cursor[COUNT] = block.count(memory.lengths[cursor[SEQUENCE]])
    cursor[BLOCK] = cursor[PLACE] - before * block.walked_heads
    cursor[HEAD] = 0 if block.walked_heads == 1 else T.truncdiv(cursor[BLOCK], cursor[COUNT])
    cursor[BLOCK] -= cursor[HEAD] * cursor[COUNT]


@T.macro
def enter_by_search(block: PagedBlock, memory: Pages, cursor: Any) -> None:
    """Enter the place's row: its sequence is the first that ends behind the place."""
    high = T.alloc_var("int32")
    middle = T.alloc_var("int32")
    cursor[SEQUENCE] = 0
    high = block.sequences - 1
    while cursor[SEQUENCE] < high:
        middle = T.truncdiv(cursor[SEQUENCE] + high, 2)
        if memory.ends[middle] * block.walked_heads > cursor[PLACE]:
            high = middle
        else:
            cursor[SEQUENCE] = middle + 1
    cursor[COUNT] = block.count(memory.lengths[cursor[SEQUENCE]])
    cursor[BLOCK] = cursor[PLACE] - (memory.ends[cursor[SEQUENCE]] - cursor[COUNT]) * block.walked_heads
    cursor[HEAD] = T.truncdiv(cursor[BLOCK], cursor[COUNT])
    cursor[BLOCK] -= cursor[HEAD] * cursor[COUNT]


@T.macro
def count_places(
    block: PagedBlock,
    memory: Pages,
    lengths: Any,
    table: Any,
    threads: int,
    thread: Any,
    table_is_near: bool = False,
) -> tuple[Any, LaneCounts | None]:
    """Count all places, by warp or together.

    Warps let the table come to the L2 cache meanwhile, unless it is there: where a share reads it is not known yet.
    """
    if block.warps_look_up:
        if not table_is_near:
            bring(table, block.sequences * block.pages, threads, thread)
        counts = look_up(block, memory, lengths, thread)
        return T.shfl_sync(counts.end, LANES - 1) * block.walked_heads, counts
    else:
        measure(block, memory, lengths, threads, thread)
        return memory.ends[block.sequences - 1] * block.walked_heads, None


@T.macro
def begin(
    block: PagedBlock, memory: Pages, cursor: Any, shares: Shares, share: Any, counts: LaneCounts | None = None
) -> None:
    """Go to the first place of a share, by the warp's counts where it has them."""
    cursor[PLACE] = shares.start(share)
    cursor[END] = shares.start(share + 1)
    if counts is None:
        enter_by_search(block, memory, cursor)
    else:
        enter_by_lane(block, memory, cursor, counts)
    if isinstance(shares, HeadShares):
        cursor[HEAD] = shares.head


class CountedRows(Protocol):
    """A block of threads for which rows have a cost."""

    @property
    def row_cost(self) -> int: ...


def start_of(block: CountedRows, cursor: Any) -> Any:
    """The first block of keys that a share has of a row: the row's first places stand for what it costs."""
    return T.max(cursor[BLOCK] - block.row_cost, 0) if block.row_cost else cursor[BLOCK]


def steps_of(block: CountedRows, cursor: Any) -> Any:
    """The blocks of keys that a share has of a row."""
    if block.row_cost == 0:
        return cursor[STEPS]
    return T.max(cursor[BLOCK] + cursor[STEPS] - block.row_cost, 0) - start_of(block, cursor)


def has_steps(block: CountedRows, cursor: Any) -> Any:
    """Whether a share has more of a row than its cost."""
    return block.row_cost == 0 or steps_of(block, cursor) > 0


@T.macro
def enter_row(block: PagedBlock, memory: Pages, cursor: Any) -> None:
    """Find how many places of the cursor's row belong to the share.

    The length is read here and not in ``advance``: there it needs a guard, and ptxas 13.0 added 1 twice to the guarded
    index.
    """
    cursor[COUNT] = block.count(memory.lengths[cursor[SEQUENCE]])
    cursor[STEPS] = T.min(cursor[COUNT] - cursor[BLOCK], cursor[END] - cursor[PLACE])


@T.macro
def advance(block: PagedBlock, cursor: Any, keeps_head: bool = False) -> None:
    """Go on to the next head of keys, and after the last one, or if the head stays, to the next sequence."""
    cursor[PLACE] += cursor[STEPS]
    cursor[BLOCK] = 0
    if keeps_head:
        cursor[SEQUENCE] += 1
    else:
        cursor[HEAD] += 1
        if cursor[HEAD] == block.walked_heads:
            cursor[HEAD] = 0
            cursor[SEQUENCE] += 1


@T.macro
def load(tensor: Any, at: Any, buffer: Any, full: Any, stage: Any) -> None:
    page, token, tokens, head, depth = at
    T.tma_copy(
        tensor[page, token : token + tokens, head, 0:depth],
        buffer[stage, :, :],
        barrier=full[stage],
        eviction_policy="evict_first",
    )
    if T.shuffle_elect(32):
        T.mbarrier_arrive(full[stage])


@T.macro
def produce(
    block: PagedBlock,
    memory: Pages,
    K: Any,
    V: Any,
    table: Any,
    cursor: Any,
    shares: Shares,
    share: Any,
    counts: LaneCounts | None,
) -> None:
    size, num_stages = block.block_N, block.num_stages
    begin(block, memory, cursor, shares, share, counts)
    done = T.alloc_var("int32", init=0)
    page = T.alloc_var("int32")
    while cursor[PLACE] < cursor[END]:
        enter_row(block, memory, cursor)
        for step in T.serial(steps_of(block, cursor)):
            first = (start_of(block, cursor) + step) * size
            page = table[cursor[SEQUENCE], T.truncdiv(first, block.page)]
            at = (page, T.truncmod(first, block.page), size, cursor[HEAD], block.depth)
            stage, parity = (done + step) % num_stages, (((done + step) // num_stages) & 1) ^ 1
            T.mbarrier_wait_parity(memory.K_empty[stage], parity)
            load(K, at, memory.K, memory.K_full, stage)
            T.mbarrier_wait_parity(memory.V_empty[stage], parity)
            load(V, at, memory.V, memory.V_full, stage)
        done = done + steps_of(block, cursor)
        advance(block, cursor, block.heads_together)


@T.macro
def signal(thread: Any, barriers: Any, index: Any) -> None:
    if thread % GROUP == 0:
        T.mbarrier_arrive(barriers[index])


@T.macro
def attend(
    block: PagedBlock, memory: Pages, r: DecodeRegisters, stage: Any, parity: Any, left: Any, thread: Any
) -> None:
    """Add a block of keys, of which the first ``left`` are the sequence's."""
    size, to_log2 = block.block_N, block.to_log2
    T.mbarrier_wait_parity(memory.K_full[stage], parity)
    T.wgmma_gemm(memory.Q, memory.K[stage, :, :], r.S, transpose_B=True, clear_accum=True)
    T.wait_wgmma(0)
    T.warpgroup_fence_operand(r.S, num_regs=ROWS * size // GROUP)
    signal(thread, memory.K_empty, stage)
    if left < size:
        for i, j in T.Parallel(ROWS, size):
            r.S[i, j] = T.if_then_else(j < left, r.S[i, j], LEAST)
    T.copy(r.maximum, r.before)
    T.reduce_max(r.S, r.maximum, dim=1, clear=False)
    for i in T.Parallel(ROWS):
        r.scale[i] = T.exp2((r.before[i] - r.maximum[i]) * to_log2)
    for i, j in T.Parallel(ROWS, size):
        r.S[i, j] = T.exp2(r.S[i, j] * to_log2 - r.maximum[i] * to_log2)
    T.reduce_sum(r.S, r.sum, dim=1)
    for i in T.Parallel(ROWS):
        r.total[i] = r.total[i] * r.scale[i] + r.sum[i]
    T.copy(r.S, r.P)
    for i, j in T.Parallel(ROWS, block.depth):
        r.out[i, j] *= r.scale[i]
    T.mbarrier_wait_parity(memory.V_full[stage], parity)
    if left < size:  # 0 times what lies beyond the length need not be 0
        for i, j in T.Parallel(size, block.depth):
            if i >= left:
                memory.V[stage, i, j] = T.cast(0, block.dtype)
        T.fence_proxy_async()
        T.sync_threads(BARRIER, GROUP)
    T.wgmma_gemm(r.P, memory.V[stage, :, :], r.out)
    T.wait_wgmma(0)
    T.warpgroup_fence_operand(r.out, num_regs=ROWS * block.depth // GROUP)
    signal(thread, memory.V_empty, stage)


@T.macro
def combine(block: PagedBlock, Out: Any, parts: Any, states: Any, cursor: Any, shares: Shares, column: Any) -> None:
    """Add up the parts of a column of a row of places, in the order of the row; some heads and parts at once."""
    at_once = gcd(block.shared_heads, HEADS_AT_ONCE)
    first = T.alloc_var("int32")
    last = T.alloc_var("int32")
    part = T.alloc_var("int32")
    larger = T.alloc_var("float32")
    own = T.alloc_var("float32")
    kept = T.alloc_var("float32")
    maximum = T.alloc_local((at_once,), "float32")
    total = T.alloc_local((at_once,), "float32")
    value = T.alloc_local((at_once,), "float32")
    maxima = T.alloc_local((PARTS_AT_ONCE, at_once), "float32")
    totals = T.alloc_local((PARTS_AT_ONCE, at_once), "float32")
    values = T.alloc_local((PARTS_AT_ONCE, at_once), "float32")
    first = shares.owner(cursor[PLACE] - cursor[BLOCK] + block.row_cost)
    last = shares.owner(cursor[PLACE] - cursor[BLOCK] + cursor[COUNT] - 1)
    for heads in T.serial(block.shared_heads // at_once):
        for i in T.unroll(at_once):
            maximum[i] = LEAST
            total[i] = 0.0
            value[i] = 0.0
        for some in T.serial(ceildiv(last - first + 1, PARTS_AT_ONCE)):
            for each in T.unroll(PARTS_AT_ONCE):
                share = first + some * PARTS_AT_ONCE + each
                part = shares.block_of(T.min(share, last)) * 2 + T.if_then_else(share == first, 1, 0)
                for i in T.unroll(at_once):
                    head = heads * at_once + i
                    maxima[each, i] = T.if_then_else(share > last, LEAST, states[part, 0, head])
                    totals[each, i] = states[part, 1, head]
                    values[each, i] = parts[part, head, column]
            for each in T.unroll(PARTS_AT_ONCE):
                for i in T.unroll(at_once):
                    larger = T.max(maximum[i], maxima[each, i])
                    kept = T.exp2((maximum[i] - larger) * block.to_log2)
                    own = T.exp2((maxima[each, i] - larger) * block.to_log2)
                    total[i] = total[i] * kept + totals[each, i] * own
                    value[i] = value[i] * kept + values[each, i] * own
                    maximum[i] = larger
        for i in T.unroll(at_once):
            head = cursor[HEAD] * block.shared_heads + heads * at_once + i
            Out[cursor[SEQUENCE], head, column] = value[i] / total[i]


def paged_decode(
    problem: Problem,
    *,
    block_N: int,
    num_stages: int,
    blocks_per_sm: int = 1,
    dependent_launch: bool = False,
    row_cost: int = 0,
    warps_look_up: bool = False,
    bring_early: bool = False,
    heads_together: bool = False,
    num_sms: int = NUM_SMS,
) -> Program:
    """O[B,H,D] = softmax(Q Kᵀ / sqrt(D)) V over the tokens of each sequence, which lie in pages.

    The blocks of keys of one head of one sequence are a row of places, and all rows lie one after another. Every block
    of threads takes an equal share of the places, whatever the lengths are. Where a share cuts a row, its part goes to
    a workspace; the block of threads that ends the row adds the parts up, in their order. No block waits for another.

    One warp loads blocks of keys and values into two rings by TMA. The consumer group multiplies them with the heads
    that share them, in one tile of 64 rows. Its other rows are zeros: the memory's bandwidth is the limit.

    Levers:

    - ``block_N``: keys of a block; it divides a page.
    - ``num_stages`` of each ring.
    - ``blocks_per_sm``: with 2 one's softmax runs under the other's products and waits; each has half of the stages.
    - ``dependent_launch``: as in ``kernels.gemm.warp_specialized``.
    - ``row_cost``: a row counts as so many blocks of keys more, for its queries, its hand-over and its output.
    - ``warps_look_up``: each warp finds its share by itself, and the table comes to the L2 cache meanwhile.
    - ``bring_early``: table and lengths come to the L2 cache while the kernel before still runs. If it changes them,
      they change there, and every read is after its end.
    - ``heads_together``: blocks of threads next to one another take the same places of different heads of keys. In a
      page the heads of a token lie side by side, and so they are read at about the same time.

    Limits: sm_90a; bf16 and fp16; heads of 64 or 128. It needs counters, zero at first, which every launch leaves zero.
    Launches on one workspace must not overlap.
    """
    block = PagedBlock.of(
        problem,
        block_N=block_N,
        num_stages=num_stages,
        blocks_per_sm=blocks_per_sm,
        row_cost=row_cost,
        warps_look_up=warps_look_up,
        bring_early=bring_early,
        heads_together=heads_together,
        num_sms=num_sms,
    )
    shared, registers = block.shared_heads, REGISTERS[blocks_per_sm]
    parts_shape, states_shape = (2 * block.blocks, shared, block.depth), (2 * block.blocks, 2, shared)
    counters_shape = (block.sequences, block.kv_heads)
    q_shape, k_shape, v_shape, table_shape, lengths_shape = problem.inputs
    dtype = block.dtype

    @T.macro
    def leave_part(parts: Any, states: Any, r: DecodeRegisters, part: Any) -> None:
        for i, j in T.Parallel(ROWS, block.depth):
            if i < shared:
                parts[part, i, j] = r.out[i, j]
        for i in T.Parallel(ROWS):
            if i < shared:
                states[part, 0, i] = r.maximum[i]
                states[part, 1, i] = r.total[i]

    @T.macro
    def end_row(
        Out: Any,
        parts: Any,
        states: Any,
        counters: Any,
        memory: Pages,
        r: DecodeRegisters,
        cursor: Any,
        shares: Shares,
        share: Any,
        thread: Any,
    ) -> None:
        """Write the output of a whole row; of a part, leave it, and add all up where it was the last."""
        if steps_of(block, cursor) == cursor[COUNT] - row_cost:
            for i, j in T.Parallel(ROWS, block.depth):
                if i < shared:
                    Out[cursor[SEQUENCE], cursor[HEAD] * shared + i, j] = r.out[i, j] / r.total[i]
        else:
            leave_part(
                parts, states, r, shares.block_of(share) * 2 + T.if_then_else(start_of(block, cursor) == 0, 1, 0)
            )
            if (
                T.call_extern(
                    "int32",
                    "ends_row",
                    T.address_of(counters[cursor[SEQUENCE], cursor[HEAD]]),
                    T.address_of(memory.said[0]),
                    steps_of(block, cursor),
                    cursor[COUNT] - row_cost,
                    BARRIER,
                )
                != 0
            ):
                if thread % GROUP < block.depth:
                    combine(block, Out, parts, states, cursor, shares, thread % GROUP)

    @T.macro
    def consume(
        Q: Any,
        Out: Any,
        parts: Any,
        states: Any,
        counters: Any,
        memory: Pages,
        r: DecodeRegisters,
        cursor: Any,
        shares: Shares,
        share: Any,
        thread: Any,
        counts: LaneCounts | None,
    ) -> None:
        begin(block, memory, cursor, shares, share, counts)
        done = T.alloc_var("int32", init=0)
        while cursor[PLACE] < cursor[END]:
            enter_row(block, memory, cursor)
            if has_steps(block, cursor):
                for i, j in T.Parallel(shared, block.depth):
                    memory.Q[i, j] = Q[cursor[SEQUENCE], cursor[HEAD] * shared + i, j]
                T.fence_proxy_async()
                T.sync_threads(BARRIER, GROUP)
                T.clear(r.out)
                T.clear(r.total)
                T.fill(r.maximum, LEAST)
                for step in T.serial(steps_of(block, cursor)):
                    left = memory.lengths[cursor[SEQUENCE]] - (start_of(block, cursor) + step) * block_N
                    stage, parity = (done + step) % num_stages, ((done + step) // num_stages) & 1
                    attend(block, memory, r, stage, parity, left, thread)
                done = done + steps_of(block, cursor)
                end_row(Out, parts, states, counters, memory, r, cursor, shares, share, thread)
            advance(block, cursor, heads_together)

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(k_shape, dtype),
        V: T.Tensor(v_shape, dtype),
        table: T.Tensor(table_shape, "int32"),
        lengths: T.Tensor(lengths_shape, "int32"),
        Out: T.Tensor(q_shape, dtype),
        parts: T.Tensor(parts_shape, "float32"),
        states: T.Tensor(states_shape, "float32"),
        counters: T.Tensor(counters_shape, "int32"),
    ):
        with T.Kernel(block.blocks, threads=2 * GROUP, prelude=FUNCTIONS + LINE_FUNCTION * warps_look_up) as number:
            if blocks_per_sm > 1:
                T.annotate_min_blocks_per_sm(blocks_per_sm)
            memory = allocate(block)
            r = allocate_registers(block)
            cursor = T.alloc_local((SLOTS,), "int32")
            thread = T.get_thread_binding()
            T.clear(memory.Q)
            if warps_look_up:
                T.sync_threads()  # no warp waits later for what another has cleared
            if bring_early:
                bring(table, block.sequences * block.pages, 2 * GROUP, thread)
                bring(lengths, block.sequences, 2 * GROUP, thread)
            if dependent_launch:
                wait_for_kernel_before(let_next_start=True)
            places, counts = count_places(block, memory, lengths, table, 2 * GROUP, thread, bring_early)
            shares, share = shares_of(block, places, number)
            if share < shares.number:
                if thread < GROUP:
                    if registers is not None:
                        T.set_max_nreg(registers[0], 0)
                    if thread < 32:
                        produce(block, memory, K, V, table, cursor, shares, share, counts)
                else:
                    if registers is not None:
                        T.set_max_nreg(registers[1], 1)
                    consume(Q, Out, parts, states, counters, memory, r, cursor, shares, share, thread, counts)

    return decoding(main, parts_shape, states_shape, counters_shape)


def decoding(
    main: Any, parts_shape: tuple[int, ...], states_shape: tuple[int, ...], counters_shape: tuple[int, ...]
) -> Program:
    """The program of ``main``, with workspaces for the partial outputs of shares, their states and counters."""
    return Program(
        main,
        pass_configs={
            "tl.disable_shared_memory_reuse": True,  # warp groups run at their own pace
            "tl.enable_fast_math": True,  # exp2f is one MUFU then, without its care for denormal numbers
            "tl.disable_safe_memory_legalize": True,  # it guards each access; all stand inside their tensors
            "tl.disable_thread_storage_sync": True,  # barriers stand where they are needed
        },
        workspaces=(
            Workspace(parts_shape, "float32"),
            Workspace(states_shape, "float32"),
            Workspace(counters_shape, "int32"),
        ),
    )
