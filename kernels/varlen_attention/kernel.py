"""Causal attention of sequences that lie one after another: the producer finds its tiles by their lengths."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program, Workspace
from kernels.flash_attention import kept_maxima
from kernels.flash_attention.block import EPILOGUE_N, ROWS, Block, Consumer, Shared, allocate_registers, allocate_shared
from kernels.flash_attention.steps import (
    EPILOGUE_BARRIER,
    await_queries,
    await_turn,
    end_scores,
    end_stores,
    end_values,
    epilogue_buffer,
    exponentiate,
    find_maxima,
    free_queries,
    give_turn,
    invert_total,
    mask,
    rescale,
    start_scores,
    start_values,
    tie,
)
from kernels.flash_attention.steps import FUNCTIONS as STEP_FUNCTIONS
from kernels.hopper import GROUP, NUM_SMS, run_consumers
from kernels.operands import ceildiv, require

# Of a tile: its row of tiles in its sequence, or -1 after the last; where the sequence starts; its tokens; the head.
ROW, START, TOKENS, HEAD, WORDS = range(5)

FUNCTIONS = r"""
// The next number of a counter, for a warp. Each of `blocks` asks until it gets `total` or more; the last leaves 0.
static __device__ __forceinline__ int next_number(int *counter, int total, int blocks) {
  int number = 0;
  if (threadIdx.x % 32 == 0) {
    number = atomicAdd(counter, 1);
    if (number == total + blocks - 1) atomicExch(counter, 0);
  }
  return __shfl_sync(~0u, number, 0);
}
"""


@dataclass(frozen=True)
class UnevenTiles:
    """Tiles of queries of all sequences, ``heads_at_once`` heads at a time, the longest rows of tiles first."""

    block: Block
    sequences: int
    longest: int  # tokens of a sequence at most
    heads_at_once: int
    blocks: int  # of the grid

    @property
    def levels(self) -> int:
        """Rows of tiles of the longest sequence."""
        return ceildiv(self.longest, self.block.block_M)

    def rows(self, tokens: Any) -> Any:
        return T.truncdiv(tokens + self.block.block_M - 1, self.block.block_M)

    def key_blocks(self, row: Any, tokens: Any) -> Any:
        """Blocks of keys that a row of tiles sees."""
        size = self.block.block_N
        return T.truncdiv(T.min((row + 1) * self.block.block_M, tokens) + size - 1, size)


@T.macro
def measure(tiles: UnevenTiles, starts: Any, begins: Any, upto: Any, thread: Any) -> None:
    """Copy the starts, and count for each row of tiles those of all sequences from it on, for one head."""
    for i in T.serial(ceildiv(tiles.sequences + 1, tiles.block.threads)):
        at = i * tiles.block.threads + thread
        if at < tiles.sequences + 1:
            begins[at] = starts[at]
    T.sync_threads()
    count = T.alloc_var("int32")
    for i in T.serial(ceildiv(tiles.levels + 1, tiles.block.threads)):
        level = i * tiles.block.threads + thread
        if level < tiles.levels + 1:
            count = 0
            for b in T.serial(tiles.sequences):
                count = count + T.max(tiles.rows(begins[b + 1] - begins[b]) - level, 0)
            upto[level] = count
    T.sync_threads()


@T.macro
def find(tiles: UnevenTiles, begins: Any, upto: Any, index: Any, place: Any) -> None:
    """Which row of which sequence and head a tile is."""
    at_once = tiles.heads_at_once
    section = T.alloc_var("int32")
    rest = T.alloc_var("int32")
    low = T.alloc_var("int32")
    high = T.alloc_var("int32")
    section = T.truncdiv(index, upto[0] * at_once)
    rest = index - section * upto[0] * at_once
    low = 0
    high = tiles.levels - 1
    while low < high:  # the shortest row before which no more tiles lie
        middle = T.truncdiv(low + high, 2)
        if upto[middle + 1] * at_once <= rest:
            high = middle
        else:
            low = middle + 1
    rest = rest - upto[low + 1] * at_once
    place[ROW] = low
    place[HEAD] = section * at_once + T.truncmod(rest, at_once)
    rest = T.truncdiv(rest, at_once)  # of the sequences that have this row
    for b in T.serial(tiles.sequences):
        if tiles.rows(begins[b + 1] - begins[b]) > low:
            if rest == 0:
                place[START] = begins[b]
                place[TOKENS] = begins[b + 1] - begins[b]
            rest = rest - 1


@T.macro
def tell(shared: Shared, told: Any, place: Any, group: int, tile: Any, thread: Any) -> None:
    """Leave a tile's place to a consumer group, when it has read the last one."""
    T.mbarrier_wait_parity(shared.Q_empty[group], (tile & 1) ^ 1)
    if thread == 0:
        for word in T.unroll(WORDS):
            told[group, word] = place[word]
    T.sync_warp()


@T.macro
def store(c: Consumer, Out: Any, head: Any, first: Any, left: Any) -> None:
    """The rows of a group that are the sequence's: all of them by TMA, some from registers."""
    block, r = c.block, c.registers
    for i, j in T.Parallel(ROWS, block.width):
        r.out[i, j] *= r.inverse[i]
    if block.epilogue_buffers > 0:
        if left >= ROWS:
            for part in list(range(block.width // EPILOGUE_N)):
                n0 = part * EPILOGUE_N
                buffer = epilogue_buffer(c, part % block.epilogue_buffers)
                T.tma_store_wait(block.epilogue_buffers - 1)  # this buffer's last store has read it
                T.sync_threads(EPILOGUE_BARRIER + c.group, GROUP)
                T.copy(r.out[:, n0 : n0 + EPILOGUE_N], buffer)
                T.fence_proxy_async()
                T.sync_threads(EPILOGUE_BARRIER + c.group, GROUP)
                T.tma_copy(buffer, Out[first : first + ROWS, head, n0 : n0 + EPILOGUE_N])
        else:
            for i, j in T.Parallel(ROWS, block.width):
                if i < left:
                    Out[first + i, head, j] = r.out[i, j]
    else:
        for i, j in T.Parallel(ROWS, block.width):
            if i < left:
                Out[first + i, head, j] = r.out[i, j]


def varlen(
    problem: Problem,
    *,
    block_N: int,
    num_stages: int = 2,
    ping_pong: bool = True,
    rescale_first: bool = False,
    early_wait: bool = False,
    dynamic: bool = True,
    heads_at_once: int = 1,
    epilogue_buffers: int = 0,
    one_array: bool = False,
    keeps_maxima: bool = False,
    powers_first: int = 0,
    num_sms: int = NUM_SMS,
) -> Program:
    """O[N,H,D] of causal attention within sequences, each consumer group 64 queries, as in ``flash_attention``.

    A tile has 128 queries of one sequence and head. The lengths are known to the device alone. So each block first
    counts the tiles of each length; then its producer finds a tile's place by bisection, and tells it to the consumers
    beside the queries. The longest rows of tiles come first. A tile's last queries may be of the next sequence: they
    are computed, but not stored. Keys of the next sequence lie behind all queries that count, so the mask hides them.

    Levers:

    - ``block_N``, ``num_stages``, ``ping_pong``, ``rescale_first``, ``early_wait``, ``epilogue_buffers``: as in
      ``kernels.flash_attention.forward``; likewise ``one_array``, ``keeps_maxima`` and ``powers_first``.
    - ``dynamic``: a block takes the next tile of all when it is free, by an atomic counter; else every ``num_sms``-th.
    - ``heads_at_once``: the heads in use at a time; their keys and values share the L2.

    Limits: sm_90a; bf16 and fp16; heads of 64 or 128. ``dynamic`` needs a counter, zero at first, which every launch
    leaves zero.
    """
    require(problem.operator == "varlenattention", f"{problem}: operator '{problem.operator}' is not varlenattention")
    sequences, heads, kv_heads, tokens, longest, depth = problem.dims
    require(heads % heads_at_once == 0, f"heads_at_once={heads_at_once} does not divide {heads} heads")
    kept_maxima.check(keeps_maxima, powers_first, block_N, others=rescale_first or early_wait)
    block = Block(
        batches=1,
        heads=heads,
        kv_heads=kv_heads,
        tokens=tokens,
        depth=depth,
        width=depth,
        dtype=problem.input,
        causal=True,
        block_N=block_N,
        num_stages=num_stages,
        consumer_groups=2,
        ahead=False,
        epilogue_buffers=epilogue_buffers,
        one_array=one_array,
    )
    tiles = UnevenTiles(block, sequences, longest, heads_at_once, num_sms)
    groups, masked = block.consumer_groups, block.masked
    consumer = partial(
        Consumer,
        block,
        ping_pong=ping_pong,
        partial_sums=True,
        keeps_maxima=keeps_maxima,
        powers_first=powers_first,
    )
    prelude = STEP_FUNCTIONS + FUNCTIONS + (kept_maxima.FUNCTIONS if keeps_maxima else "")

    @T.macro
    def load(tensor: Any, head: Any, first: Any, rows: int, buffer: Any, full: Any, stage: Any) -> None:
        T.tma_copy(tensor[first : first + rows, head, 0:depth], buffer[stage, :, :], barrier=full[stage])
        if T.shuffle_elect(32):
            T.mbarrier_arrive(full[stage])

    @T.macro
    def produce(
        Q: Any,
        K: Any,
        V: Any,
        shared: Shared,
        begins: Any,
        upto: Any,
        told: Any,
        counter: Any,
        number: Any,
        thread: Any,
    ) -> None:
        place = T.alloc_local((WORDS,), "int32")
        total = T.alloc_var("int32")
        index = T.alloc_var("int32")
        tile = T.alloc_var("int32", init=0)
        blocks = T.alloc_var("int32")
        done = T.alloc_var("int32", init=0)  # blocks of keys of the tiles before
        total = upto[0] * heads
        index = T.call_extern("int32", "next_number", T.address_of(counter[0]), total, num_sms) if dynamic else number
        while index < total:
            find(tiles, begins, upto, index, place)
            blocks = tiles.key_blocks(place[ROW], place[TOKENS])
            for step in T.serial(blocks):
                n0 = place[START] + (blocks - 1 - step) * block_N  # the last first, which needs a mask
                stage, parity = (done + step) % num_stages, (((done + step) // num_stages) & 1) ^ 1
                head = T.truncdiv(place[HEAD], block.shared_heads)
                T.mbarrier_wait_parity(shared.K_empty[stage], parity)
                load(K, head, n0, block_N, shared.K, shared.K_full, stage)
                if step == 0:
                    for group in list(range(groups)):
                        tell(shared, told, place, group, tile, thread)
                        m0 = place[START] + place[ROW] * block.block_M + group * ROWS
                        load(Q, place[HEAD], m0, ROWS, shared.Q, shared.Q_full, group)
                T.mbarrier_wait_parity(shared.V_empty[stage], parity)
                load(V, head, n0, block_N, shared.V, shared.V_full, stage)
            done = done + blocks
            tile = tile + 1
            index = (
                T.call_extern("int32", "next_number", T.address_of(counter[0]), total, num_sms)
                if dynamic
                else index + num_sms
            )
        place[ROW] = -1
        for group in list(range(groups)):
            tell(shared, told, place, group, tile, thread)
            if thread == 0:
                T.mbarrier_arrive(shared.Q_full[group])

    @T.macro
    def first_step(c: Consumer, tile: Any, at: Any, m0: Any, n0: Any) -> None:
        start_scores(c, tile, at)
        end_scores(c, at, 0)
        mask(c, m0, n0)
        find_maxima(c, True)
        exponentiate(c, True)
        T.copy(c.registers.S, c.registers.P)

    @T.macro
    def softmax_of_new_maxima(c: Consumer, at: Any) -> None:
        find_maxima(c, False)
        if not early_wait:
            exponentiate(c, False)
        end_values(c, at - 1)
        if early_wait:
            tie(c)
            exponentiate(c, False)
        T.copy(c.registers.S, c.registers.P)
        if not rescale_first:
            rescale(c)

    @T.macro
    def next_step(c: Consumer, tile: Any, at: Any, m0: Any, n0: Any, masks: bool) -> None:
        await_turn(c)
        start_scores(c, tile, at)
        if rescale_first:
            rescale(c)
        start_values(c, at - 1)
        give_turn(c, c.group + 1)
        end_scores(c, at, 1)
        if masks:
            mask(c, m0, n0)
        if keeps_maxima:
            kept_maxima.softmax(c, at)
        else:
            softmax_of_new_maxima(c, at)

    @T.macro
    def listen(c: Consumer, told: Any, place: Any, tile: Any) -> None:
        await_queries(c, tile)
        for word in T.unroll(WORDS):
            place[word] = told[c.group, word]
        T.sync_threads(EPILOGUE_BARRIER + c.group, GROUP)  # all have read it before the queries are freed

    @T.macro
    def consume(Out: Any, shared: Shared, registers: list[Any], told: Any, thread: Any, group: int) -> None:
        c = consumer(shared=shared, registers=registers[group], thread=thread, group=group)
        place = T.alloc_local((WORDS,), "int32")
        tile = T.alloc_var("int32", init=0)
        blocks = T.alloc_var("int32")
        m0 = T.alloc_var("int32")
        done = T.alloc_var("int32", init=0)
        if group == groups - 1:
            give_turn(c, 0)
        listen(c, told, place, tile)
        while place[ROW] >= 0:
            blocks = tiles.key_blocks(place[ROW], place[TOKENS])
            m0 = place[ROW] * block.block_M + group * ROWS
            T.clear(c.registers.out)
            first_step(c, tile, done, m0, (blocks - 1) * block_N)
            if masked > 1:
                for step in T.serial(1, T.min(masked, blocks)):
                    next_step(c, tile, done + step, m0, (blocks - 1 - step) * block_N, True)
            for step in T.serial(masked, blocks):
                next_step(c, tile, done + step, m0, 0, False)
            free_queries(c, tile)
            done = done + blocks
            tile = tile + 1
            if rescale_first:
                rescale(c)
            start_values(c, done - 1)
            invert_total(c)
            end_values(c, done - 1)
            store(c, Out, place[HEAD], place[START] + m0, place[TOKENS] - m0)
            listen(c, told, place, tile)
        end_stores(c)

    q_shape, k_shape, v_shape, starts_shape = problem.inputs
    dtype = block.dtype

    @T.macro
    def run(Q: Any, K: Any, V: Any, starts: Any, Out: Any, counter: Any) -> None:
        with T.Kernel(num_sms, threads=block.threads, prelude=prelude) as number:
            shared = allocate_shared(block)
            registers = allocate_registers(block, keeps_maxima)
            begins = T.alloc_shared((sequences + 1,), "int32")
            upto = T.alloc_shared((tiles.levels + 1,), "int32")
            told = T.alloc_shared((groups, WORDS), "int32")
            thread = T.get_thread_binding()
            measure(tiles, starts, begins, upto, thread)
            if thread < GROUP:
                T.set_max_nreg(block.registers[0], 0)
                if thread < 32:
                    produce(Q, K, V, shared, begins, upto, told, counter, number, thread)
            else:
                work = partial(consume, Out, shared, registers, told, thread)
                run_consumers(groups, block.registers[1], thread, work, 0)

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(k_shape, dtype),
        V: T.Tensor(v_shape, dtype),
        starts: T.Tensor(starts_shape, "int32"),
        Out: T.Tensor(q_shape, dtype),
        counter: T.Tensor((1,), "int32"),
    ):
        run(Q, K, V, starts, Out, counter)

    return Program(
        main,
        pass_configs={
            "tl.disable_shared_memory_reuse": True,  # warp groups run at their own pace
            "tl.enable_fast_math": True,  # exp2f is one MUFU then, without its care for denormal numbers
            "tl.disable_safe_memory_legalize": True,  # it guards each store; TMA clips, and ``store`` looks itself
            "tl.disable_thread_storage_sync": True,  # barriers stand where they are needed
        },
        workspaces=(Workspace((1,), "int32"),),
    )
