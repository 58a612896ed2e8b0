"""Attention forward with hand-made warp specialization: softmax of one block of keys under the products of the next."""

from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.flash_attention import kept_maxima
from kernels.flash_attention.block import MAX_LOG2, ROWS, Block, Consumer, Shared, allocate_registers, allocate_shared
from kernels.flash_attention.steps import (
    FUNCTIONS,
    FUNCTIONS_BY_ROW,
    FUNCTIONS_IN_PARTS,
    FUNCTIONS_OF_GROWTH,
    FUNCTIONS_OF_ONE_TEXT,
    await_loads,
    await_queries,
    await_turn,
    end_scores,
    end_stores,
    end_values,
    exponentiate,
    exponentiate_after_wait,
    exponentiate_before_wait,
    find_maxima,
    free_queries,
    give_turn,
    invert_total,
    mask,
    rescale,
    start_scores,
    start_values,
    store,
)
from kernels.flash_attention.tiles import Tiles
from kernels.hopper import GROUP, NUM_SMS, run_consumers, wait_for_kernel_before
from kernels.operands import require


def forward(
    problem: Problem,
    *,
    block_N: int,
    num_stages: int = 2,
    consumer_groups: int = 2,
    overlap: bool = True,
    ping_pong: bool = True,
    ahead: bool = False,
    rescale_first: bool = False,
    early_wait: bool = False,
    partial_sums: bool = True,
    persistent: bool = True,
    heads_at_once: int = 1,
    epilogue_buffers: int = 0,
    one_array: bool = False,
    dependent_launch: bool = False,
    early_loads: bool = False,
    early_turn: bool = False,
    one_text: bool = False,
    keys_ahead: bool = False,
    cluster: int = 1,
    by_row: bool = False,
    late_wait: bool = False,
    growth: float = 0.0,
    powers_first: int = 0,
    keeps_maxima: bool = False,
    exact_weights: bool = False,
    num_sms: int = NUM_SMS,
) -> Program:
    """O[batch, heads, tokens, width] = softmax(Q Kᵀ / sqrt(depth)) V, each consumer group 64 queries.

    One warp loads Q, and loads K and V into two rings. P = exp2 of the scores goes from registers straight into the
    second product. The output stays unnormalised until the end. The softmax stands between the two products of a
    block, and the tensor cores would wait for it. The levers give them other work (Shah et al., "FlashAttention-3",
    2024, sections 3.1 and 3.2):

    - ``overlap``: Q Kᵀ of a block is issued together with P V of the block before.
    - ``ping_pong``: the groups take turns to issue, so that one's softmax runs under the other's products.
    - ``ahead``: the last P V of a tile is issued with the first Q Kᵀ of the next. It takes a second buffer of Q.
    - ``rescale_first``: the output so far is scaled under Q Kᵀ instead of after P V.
    - ``early_wait``: the wait for P V stands between the maxima and the powers, not where ptxas puts it. Stages of V
      are free earlier. Conversions to 16 bits mix with the powers, which the MUFU unit bounds.
    - ``partial_sums``: each thread adds its own columns only, and lanes meet once a tile.
    - ``persistent``: a grid of ``num_sms`` blocks. Producers load the next tile while the consumers end this one. A
      schedule made beforehand gives each causal tile to the block that is free first (``tiles.py``).
    - ``heads_at_once``: the heads in use at a time; their keys and values share the tens of MB of L2. More heads
      balance causal tiles better.
    - ``block_N``: keys of a block. Wide blocks have fewer barriers and maxima. Registers limit them to 176 beside an
      output 128 wide.
    - ``epilogue_buffers`` of each consumer group, 64 columns wide: the output leaves through them by TMA. One or two
      fit beside K and V. With 0 it leaves from registers in halves of sectors, a tenth of the time of 1,024 tokens.
    - ``one_array``: these buffers are one array of the group, so that each build of a source is the same kernel. In
      lists they share a name, and TileLang orders them by addresses.
    - ``dependent_launch``: programmatic dependent launch, as in ``kernels.gemm.warp_specialized``; for short sequences.
    - ``early_loads``: a group waits for its loads before its turn, and only the first group does: the others' turns
      come after its own. Nothing but descriptors then stands between a turn and its first WGMMA.
    - ``early_turn``: the turn passes on between a group's two products, so that the next group's are queued in time.
    - ``one_text``: the consumer groups run the same instructions instead of one copy each, which takes half of the
      instruction cache. Warp groups are then the y dimension of a block of threads.
    - ``keys_ahead``: K of a block is loaded before V of the block before, as consumers read and free them. Otherwise
      the load of the next K waits for V's stage, which is free half a turn after K's own.
    - ``cluster`` of 2: two blocks have tiles side by side of one head, and share each load of K and V by multicast.
      They read half as much from L2. Causal ones go through the keys of the longer tile.
    - ``by_row``: a thread's two rows one after the other, as in FlashAttention-3. The powers of the first run beside
      the maxima of the second. The factor of the output comes first, so that its scaling runs beside the powers too.
    - ``late_wait``: the wait for P V stands after the powers of the first row, where ptxas would have most after it.
    - ``growth``: a maximum counts as grown only from so many powers of two on. Until then the one before stays, and a
      warp leaves its output unscaled, as in FlashAttention-4, which takes 8. The powers are then at most 2^growth.
    - ``powers_first``: so many of a thread's powers stand before the wait for P V, and the others after it. With 0
      ptxas chooses.
    - ``keeps_maxima``: a tile's first block of keys gives its maxima. Later blocks find new ones only where a thread's
      sum of powers exceeds 2^15 (``kept_maxima.py``). So they have a fifth fewer instructions.
    - ``exact_weights``: they find new ones too where one power is most of its thread's sum. It is 1 then, which 16
      bits hold exactly. Rows with one heavy key have the largest errors otherwise.
    - ``num_stages`` of each ring; ``consumer_groups`` (2, or 3 with narrow blocks).

    Limits: sm_90a; bf16 and fp16; heads multiples of 64. The schedule of a causal grid is a table of all tiles in the
    kernel's text.

    The package's docstring says what it reaches on an H200: a new figure there makes no record stale.
    """
    require(overlap or not (ahead or rescale_first or early_wait), "ahead, rescale_first and early_wait need overlap")
    turns = overlap and ping_pong
    require(turns or not (early_loads or early_turn), "early_loads and early_turn need overlap and ping_pong")
    require(partial_sums or not by_row, "by_row needs partial_sums")
    require(by_row or not late_wait, "late_wait needs by_row")
    require(not (late_wait and early_wait), "late_wait and early_wait exclude each other")
    parts_fit = overlap and partial_sums and not (by_row or early_wait)
    require(parts_fit or not (powers_first or keeps_maxima), "powers_first and keeps_maxima need overlap, partial_sums")
    require(0 <= growth <= MAX_LOG2, f"growth={growth} is not from 0 to {MAX_LOG2:g}, where 16-bit powers end")
    others = bool(growth) or by_row or early_wait or rescale_first
    kept_maxima.check(keeps_maxima, powers_first, block_N, others=others)
    require(keeps_maxima or not exact_weights, "exact_weights needs keeps_maxima: other softmaxes have them anyway")
    require(cluster == 1 or keys_ahead, "cluster needs keys_ahead")
    require(persistent or not ahead, "ahead needs persistent: without it a block has one tile")
    block = Block.of(
        problem,
        block_N=block_N,
        num_stages=num_stages,
        consumer_groups=consumer_groups,
        ahead=ahead,
        epilogue_buffers=epilogue_buffers,
        one_array=one_array,
        one_text=one_text,
        cluster=cluster,
    )
    tiles = Tiles.of(block, heads_at_once, num_sms if persistent else None)
    groups, heads, masked, waves = consumer_groups, block.heads, block.masked, tiles.waves
    consumer = partial(
        Consumer,
        block,
        ping_pong=ping_pong,
        partial_sums=partial_sums,
        by_row=by_row,
        early_wait=early_wait,
        late_wait=late_wait,
        growth=growth,
        powers_first=powers_first,
        keeps_maxima=keeps_maxima,
        exact_weights=exact_weights,
    )

    def first_query(row: Any, rank: Any, group: Any) -> Any:
        return row * block.unit_M + rank * block.block_M + group * ROWS

    @T.macro
    def load(tensor: Any, head: Any, first: Any, rows: int, buffer: Any, full: Any, stage: Any, to: int = 1) -> None:
        T.tma_copy(
            tensor[head[0], head[1], first : first + rows, :],
            buffer[stage, :, :],
            barrier=full[stage],
            cluster_mask=(1 << to) - 1 if to > 1 else None,
        )
        if T.shuffle_elect(32):
            T.mbarrier_arrive(full[stage])

    @T.macro
    def load_queries(Q: Any, shared: Shared, wave: Any, head: Any, row: Any, rank: Any) -> None:
        for group in list(range(groups)):
            at = wave % block.Q_stages * groups + group
            m0 = first_query(row, rank, group)
            T.mbarrier_wait_parity(shared.Q_empty[at], ((wave // block.Q_stages) & 1) ^ 1)
            load(Q, head, m0, ROWS, shared.Q, shared.Q_full, at)

    @T.macro
    def load_block(tensor: Any, head: Any, n0: Any, at: Any, buffer: Any, full: Any, empty: Any) -> None:
        """The producer's ``at``-th block of K or of V."""
        T.mbarrier_wait_parity(empty[at % num_stages], ((at // num_stages) & 1) ^ 1)
        load(tensor, head, n0, block_N, buffer, full, at % num_stages, cluster)

    @T.macro
    def produce(Q: Any, K: Any, V: Any, shared: Shared, number: Any, rank: Any) -> None:
        # alloc_var, since a plain name is inlined at every use, with all the divisions of decode().
        index = T.alloc_var("int32")
        row = T.alloc_var("int32")
        batch = T.alloc_var("int32")
        head = T.alloc_var("int32")
        blocks = T.alloc_var("int32")
        done = T.alloc_var("int32", init=0)  # blocks of keys of the tiles before
        if keys_ahead:
            V_batch = T.alloc_var("int32", init=0)
            V_head = T.alloc_var("int32", init=0)
            V_n0 = T.alloc_var("int32", init=0)
        for wave in T.serial(waves):
            index = tiles.of_block(number, wave)
            if tiles.exists(index):
                place = tiles.decode(index)
                row = place[0]
                batch = place[1] // heads
                head = place[1] % heads
                blocks = tiles.key_blocks(row, T.min)
                for step in T.serial(blocks):
                    n0 = (blocks - 1 - step) * block_N  # the last first, which may need a mask
                    if keys_ahead:
                        keys = (batch, head // block.shared_heads)
                        load_block(K, keys, n0, done + step, shared.K, shared.K_full, shared.K_empty)
                        if ahead:  # these queries have a buffer of their own, and the last values of a tile come after
                            if step == 0:
                                load_queries(Q, shared, wave, (batch, head), row, rank)
                        if done + step > 0:
                            before = (V_batch, V_head)
                            load_block(V, before, V_n0, done + step - 1, shared.V, shared.V_full, shared.V_empty)
                        if not ahead:
                            if step == 0:
                                load_queries(Q, shared, wave, (batch, head), row, rank)
                        V_batch = keys[0]
                        V_head = keys[1]
                        V_n0 = n0
                    else:
                        stage, parity = (done + step) % num_stages, (((done + step) // num_stages) & 1) ^ 1
                        T.mbarrier_wait_parity(shared.K_empty[stage], parity)
                        load(K, (batch, head // block.shared_heads), n0, block_N, shared.K, shared.K_full, stage)
                        if step == 0:
                            load_queries(Q, shared, wave, (batch, head), row, rank)
                        T.mbarrier_wait_parity(shared.V_empty[stage], parity)
                        load(V, (batch, head // block.shared_heads), n0, block_N, shared.V, shared.V_full, stage)
                done = done + blocks
        if keys_ahead:
            load_block(V, (V_batch, V_head), V_n0, done - 1, shared.V, shared.V_full, shared.V_empty)

    @T.macro
    def first_maxima(c: Consumer, row: Any, rank: Any) -> None:
        if masked > 0:
            mask(c, first_query(row, rank, c.group), (tiles.key_blocks(row, T.min) - 1) * block_N)
        find_maxima(c, True)

    @T.macro
    def first_step(c: Consumer, wave: Any, row: Any, rank: Any, at: Any) -> None:
        """A tile's first block of keys, with nothing to overlap."""
        await_queries(c, wave)
        start_scores(c, wave, at)
        end_scores(c, at, 0)
        first_maxima(c, row, rank)
        exponentiate(c, True)
        T.copy(c.registers.S, c.registers.P)
        if not overlap:
            start_values(c, at)
            end_values(c, at)

    @T.macro
    def start_products(c: Consumer, wave: Any, at: Any, rescales: bool) -> None:
        start_scores(c, wave, at, not early_loads)
        if overlap:
            if rescales:
                rescale(c)
            if early_turn:
                give_turn(c, c.group + 1)
            start_values(c, at - 1, not early_loads)
        if not early_turn:
            give_turn(c, c.group + 1)

    @T.macro
    def softmax_of_new_maxima(c: Consumer, at: Any) -> None:
        find_maxima(c, False)
        exponentiate_before_wait(c, False)
        if overlap:
            end_values(c, at - 1)
        exponentiate_after_wait(c, False)
        T.copy(c.registers.S, c.registers.P)
        if not rescale_first:
            rescale(c)
        if not overlap:
            start_values(c, at)
            end_values(c, at)

    @T.macro
    def next_step(c: Consumer, wave: Any, at: Any, m0: Any, n0: Any, masks: bool) -> None:
        if early_loads:
            await_loads(c, at)
        await_turn(c)
        start_products(c, wave, at, rescale_first)
        end_scores(c, at, 1 if overlap else 0)
        if masks:
            mask(c, m0, n0)
        if keeps_maxima:
            kept_maxima.softmax(c, at)
        else:
            softmax_of_new_maxima(c, at)

    @T.macro
    def last_values(c: Consumer, at: Any) -> None:
        if overlap:
            start_values(c, at)
        invert_total(c)
        if overlap:
            end_values(c, at)

    @T.macro
    def step_to_next_tile(c: Consumer, wave: Any, row: Any, rank: Any, at: Any) -> None:
        """The last product of a tile with the first of the next, then the first softmax of the next."""
        if early_loads:
            await_queries(c, wave)
            await_loads(c, at)
        await_turn(c)
        if not early_loads:
            await_queries(c, wave)
        start_products(c, wave, at, False)
        invert_total(c)
        end_scores(c, at, 1)
        first_maxima(c, row, rank)
        exponentiate_before_wait(c, True)
        end_values(c, at - 1)
        exponentiate_after_wait(c, True)
        T.copy(c.registers.S, c.registers.P)

    @T.macro
    def consume(
        Out: Any, shared: Shared, registers: list[Any], thread: Any, number: Any, rank: Any, group: Any
    ) -> None:
        own = registers[0 if one_text else group]
        c = consumer(shared=shared, registers=own, thread=thread, group=group)
        index = T.alloc_var("int32")
        after = T.alloc_var("int32")
        row = T.alloc_var("int32")
        head = T.alloc_var("int32")
        blocks = T.alloc_var("int32")
        done = T.alloc_var("int32", init=0)
        if group == groups - 1:
            give_turn(c, 0)
        index = tiles.of_block(number, 0)
        if ahead:
            first_step(c, 0, tiles.decode(index)[0], rank, 0)
        for wave in T.serial(waves):
            if tiles.exists(index):
                place = tiles.decode(index)
                row = place[0]
                head = place[1]
                blocks = tiles.key_blocks(row, T.min)
                after = tiles.of_block(number, wave + 1)
                m0 = first_query(row, rank, group)
                T.clear(c.registers.out)
                if not ahead:
                    first_step(c, wave, row, rank, done)
                if masked > 1:
                    for step in T.serial(1, T.min(masked, blocks)):
                        next_step(c, wave, done + step, m0, (blocks - 1 - step) * block_N, True)
                for step in T.serial(max(masked, 1), blocks):
                    next_step(c, wave, done + step, m0, 0, False)
                free_queries(c, wave)
                done = T.call_extern("int32", "of_warp", done + blocks) if one_text else done + blocks
                if rescale_first:
                    rescale(c)
                if ahead:
                    if tiles.exists(after):
                        step_to_next_tile(c, wave + 1, tiles.decode(after)[0], rank, done)
                    else:
                        last_values(c, done - 1)
                else:
                    last_values(c, done - 1)
                store(c, Out, head, m0)
                index = after
        end_stores(c)

    prelude = FUNCTIONS + (FUNCTIONS_OF_ONE_TEXT if one_text else "")
    prelude += (FUNCTIONS_BY_ROW if by_row else "") + (FUNCTIONS_OF_GROWTH if growth > 0 else "")
    prelude += kept_maxima.FUNCTIONS if keeps_maxima else FUNCTIONS_IN_PARTS if powers_first > 0 else ""
    prelude += tiles.prelude
    launch = partial(T.ClusterKernel, cluster_dims=(cluster, 1, 1)) if cluster > 1 else T.Kernel
    threads = (GROUP, groups + 1) if one_text else block.threads
    q_shape, k_shape, v_shape = problem.inputs
    o_shape, dtype = problem.output_shape, block.dtype

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(k_shape, dtype),
        V: T.Tensor(v_shape, dtype),
        Out: T.Tensor(o_shape, dtype),
    ):
        with launch(tiles.blocks * cluster, threads=threads, prelude=prelude) as own:
            number, rank = (own // cluster, own % cluster) if cluster > 1 else (own, 0)
            shared = allocate_shared(block)
            registers = allocate_registers(block, keeps_maxima)
            thread = T.get_thread_binding()
            if dependent_launch or cluster > 1:
                wait_for_kernel_before(let_next_start=dependent_launch)
            if one_text:
                group = T.alloc_var("int32")
                group = T.call_extern("int32", "of_warp", T.get_thread_binding(1)) - 1
                if group < 0:
                    T.set_max_nreg(block.registers[0], 0)
                    if thread < 32:
                        produce(Q, K, V, shared, number, rank)
                else:
                    T.set_max_nreg(block.registers[1], 1)
                    consume(Out, shared, registers, thread, number, rank, group)
            elif thread < GROUP:
                T.set_max_nreg(block.registers[0], 0)
                if thread < 32:
                    produce(Q, K, V, shared, number, rank)
            else:
                work = partial(consume, Out, shared, registers, thread, number, rank)
                run_consumers(groups, block.registers[1], thread, work, 0)
            if cluster > 1:
                T.cluster_sync()  # no block may leave while another still writes to it

    pass_configs = {
        "tl.disable_shared_memory_reuse": True,  # warp groups run at their own pace
        "tl.enable_fast_math": True,  # exp2f is one MUFU then, without its care for denormal numbers
        "tl.disable_safe_memory_legalize": True,  # it guards each store; TMA clips, and ``store`` looks itself
    }
    if one_text:
        # It takes threadIdx.x for all threads, and would have the whole block meet where one group stores.
        pass_configs["tl.disable_thread_storage_sync"] = True
    return Program(main, pass_configs=pass_configs)
