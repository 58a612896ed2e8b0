"""Attention forward with hand-made warp specialization: softmax of one block of keys under the products of the next."""

from dataclasses import dataclass
from functools import partial
from math import log2, sqrt
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.operands import ceildiv, require

GROUP = 128  # threads of a warp group
ROWS = 64  # queries of one consumer group: the M of a WGMMA
REGISTERS = {2: (24, 240), 3: (32, 160)}  # of a thread (producer, consumer), by consumer groups
LEAST = -1e30  # a masked score: finite, so that a row without any unmasked one so far is no NaN, and is forgotten later
STORE_BARRIER = 8  # named barriers from here on are one per consumer group; TileLang takes them from 0


def forward(
    problem: Problem,
    *,
    block_N: int,
    num_stages: int = 2,
    consumer_groups: int = 2,
    ping_pong: bool = True,
) -> Program:
    """O[batch, heads, tokens, width] = softmax(Q Kᵀ / sqrt(depth)) V, each consumer group 64 queries.

    A producer warp loads K and V by TMA into two rings. A consumer issues Q Kᵀ of one block of keys and P V of the
    block before it together, and computes the softmax of the first while the second runs (Shah et al.,
    "FlashAttention-3", 2024, section 3.2). With ``ping_pong`` the groups take turns to issue, so that one's softmax
    runs under the other's products (section 3.1).

    Levers: ``block_N`` (keys of a block), ``num_stages`` of each ring, ``consumer_groups`` (2 or 3), ``ping_pong``.

    Limits: sm_90a; depth and width multiples of 64; not measured yet.
    """
    require(problem.operator in ("attention", "causalattention"), f"{problem}: not attention")
    groups, causal = consumer_groups, problem.operator == "causalattention"
    batches, heads, kv_heads, tokens, depth, width = problem.dims
    dtype = problem.input
    require(groups in REGISTERS, f"consumer_groups={groups} is not 2 or 3")
    require(block_N % 16 == 0 and 16 <= block_N <= 256, f"block_N={block_N} is not a multiple of 16 up to 256")
    require(heads % kv_heads == 0, f"{problem}: {heads} heads cannot share {kv_heads}")
    require(depth % 64 == 0 and width % 64 == 0, f"{problem}: D and W must be multiples of 64")
    block_M = ROWS * groups
    tiles, shared_heads = ceildiv(tokens, block_M), heads // kv_heads
    to_log2 = log2(2.718281828459045) / sqrt(depth)
    # Blocks of keys that cross the diagonal of a tile of queries, or the end of the keys; they come first.
    masked = ceildiv(block_M, block_N) + (block_M % block_N != 0) if causal else int(tokens % block_N != 0)

    def seen(tile: Any) -> Any:
        """How many blocks of keys a tile of queries sees."""
        if causal:
            return T.min(ceildiv(tokens, block_N), T.ceildiv((tile + 1) * block_M, block_N))
        return ceildiv(tokens, block_N)

    @T.macro
    def produce(Q: Any, K: Any, V: Any, s: "_Shared", tile: Any, head: Any, batch: Any, blocks: Any) -> None:
        kv = head // shared_heads
        for group in list(range(groups)):
            m0 = tile * block_M + group * ROWS
            T.tma_copy(Q[batch, head, m0 : m0 + ROWS, :], s.Q[group, :, :], barrier=s.Q_full[0])
        if T.shuffle_elect(32):
            T.mbarrier_arrive(s.Q_full[0])
        for step in T.serial(blocks):
            n0 = (blocks - 1 - step) * block_N
            stage, parity = step % num_stages, ((step // num_stages) & 1) ^ 1
            T.mbarrier_wait_parity(s.K_empty[stage], parity)
            T.tma_copy(K[batch, kv, n0 : n0 + block_N, :], s.K[stage, :, :], barrier=s.K_full[stage])
            if T.shuffle_elect(32):
                T.mbarrier_arrive(s.K_full[stage])
            T.mbarrier_wait_parity(s.V_empty[stage], parity)
            T.tma_copy(V[batch, kv, n0 : n0 + block_N, :], s.V[stage, :, :], barrier=s.V_full[stage])
            if T.shuffle_elect(32):
                T.mbarrier_arrive(s.V_full[stage])

    @T.macro
    def scores(s: "_Shared", r: "_Registers", group: int, step: Any) -> None:
        stage = step % num_stages
        T.mbarrier_wait_parity(s.K_full[stage], (step // num_stages) & 1)
        T.wgmma_gemm(s.Q[group, :, :], s.K[stage, :, :], r.S, transpose_B=True, clear_accum=True)

    @T.macro
    def values(s: "_Shared", r: "_Registers", step: Any) -> None:
        stage = step % num_stages
        T.mbarrier_wait_parity(s.V_full[stage], (step // num_stages) & 1)
        T.wgmma_gemm(r.P, s.V[stage, :, :], r.out)

    @T.macro
    def free(barriers: Any, step: Any) -> None:
        if T.shuffle_elect(GROUP):
            T.mbarrier_arrive(barriers[step % num_stages])

    @T.macro
    def mask(r: "_Registers", m0: Any, n0: Any) -> None:
        for i, j in T.Parallel(ROWS, block_N):
            if causal:
                r.S[i, j] = T.if_then_else(m0 + i >= n0 + j, r.S[i, j], LEAST)
            else:
                r.S[i, j] = T.if_then_else(n0 + j < tokens, r.S[i, j], LEAST)

    @T.macro
    def softmax(r: "_Registers", first: bool) -> None:
        """S becomes exp2 of itself less its row's maximum so far; ``scale`` is what earlier sums are worth by now."""
        if first:
            T.reduce_max(r.S, r.maximum, dim=1, clear=True)
        else:
            T.copy(r.maximum, r.before)
            T.reduce_max(r.S, r.maximum, dim=1, clear=False)
            for i in T.Parallel(ROWS):
                r.scale[i] = T.exp2((r.before[i] - r.maximum[i]) * to_log2)
        for i, j in T.Parallel(ROWS, block_N):
            r.S[i, j] = T.exp2(r.S[i, j] * to_log2 - r.maximum[i] * to_log2)
        T.reduce_sum(r.S, r.sum, dim=1)
        if first:
            T.copy(r.sum, r.total)
        else:
            for i in T.Parallel(ROWS):
                r.total[i] = r.total[i] * r.scale[i] + r.sum[i]

    @T.macro
    def one_step(s: "_Shared", r: "_Registers", group: int, m0: Any, step: Any, blocks: Any, masks: bool) -> None:
        if ping_pong:
            T.mbarrier_wait_parity(s.turn[group], (step - 1) & 1)
        scores(s, r, group, step)
        values(s, r, step - 1)
        if ping_pong:
            if T.shuffle_elect(GROUP):
                T.mbarrier_arrive(s.turn[(group + 1) % groups])
        T.wait_wgmma(1)
        T.warpgroup_fence_operand(r.S, num_regs=ROWS * block_N // GROUP)
        free(s.K_empty, step)
        if masks:
            mask(r, m0, (blocks - 1 - step) * block_N)
        softmax(r, False)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(r.out, num_regs=ROWS * width // GROUP)
        free(s.V_empty, step - 1)
        T.copy(r.S, r.P)
        for i, j in T.Parallel(ROWS, width):
            r.out[i, j] *= r.scale[i]

    @T.macro
    def consume(
        Out: Any, s: "_Shared", registers: list[Any], tile: Any, head: Any, batch: Any, blocks: Any, group: int
    ) -> None:
        r = registers[group]
        m0 = tile * block_M + group * ROWS
        T.clear(r.out)
        if ping_pong:
            if group == groups - 1:
                if T.shuffle_elect(GROUP):
                    T.mbarrier_arrive(s.turn[0])
        T.mbarrier_wait_parity(s.Q_full[0], 0)
        scores(s, r, group, 0)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(r.S, num_regs=ROWS * block_N // GROUP)
        free(s.K_empty, 0)
        if masked > 0:
            mask(r, m0, (blocks - 1) * block_N)
        softmax(r, True)
        T.copy(r.S, r.P)
        for step in T.serial(1, T.min(masked, blocks) if masked > 1 else 1):
            one_step(s, r, group, m0, step, blocks, True)
        for step in T.serial(max(masked, 1), blocks):
            one_step(s, r, group, m0, step, blocks, False)
        values(s, r, blocks - 1)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(r.out, num_regs=ROWS * width // GROUP)
        for i, j in T.Parallel(ROWS, width):
            r.out[i, j] /= r.total[i]
        T.copy(r.out, s.out[group, :, :])
        T.fence_proxy_async()
        T.sync_threads(STORE_BARRIER + group, GROUP)
        T.tma_copy(s.out[group, :, :], Out[batch, head, m0 : m0 + ROWS, :])
        T.tma_store_wait(0)

    @T.macro
    def run_consumers(thread: Any, work: Any, group: int) -> None:
        if group == groups - 1:
            T.set_max_nreg(REGISTERS[groups][1], 1)
            work(group)
        else:
            if thread < GROUP * (group + 2):
                T.set_max_nreg(REGISTERS[groups][1], 1)
                work(group)
            else:
                run_consumers(thread, work, group + 1)

    @T.macro
    def allocate_shared() -> "_Shared":
        queries = T.alloc_shared((groups, ROWS, depth), dtype)
        keys = T.alloc_shared((num_stages, block_N, depth), dtype)
        stages_V = T.alloc_shared((num_stages, block_N, width), dtype)
        stores = T.alloc_shared((groups, ROWS, width), dtype)
        Q_full = T.alloc_barrier([1])
        K_full = T.alloc_barrier([1] * num_stages)
        K_empty = T.alloc_barrier([groups] * num_stages)
        V_full = T.alloc_barrier([1] * num_stages)
        V_empty = T.alloc_barrier([groups] * num_stages)
        turn = T.alloc_barrier([1] * groups)
        return _Shared(queries, keys, stages_V, stores, Q_full, K_full, K_empty, V_full, V_empty, turn)

    @T.macro
    def allocate_registers() -> list["_Registers"]:
        S = [T.alloc_fragment((ROWS, block_N), "float32") for _ in range(groups)]
        P = [T.alloc_fragment((ROWS, block_N), dtype) for _ in range(groups)]
        outputs = [T.alloc_fragment((ROWS, width), "float32") for _ in range(groups)]
        rows = [[T.alloc_fragment((ROWS,), "float32") for _ in range(5)] for _ in range(groups)]
        return [_Registers(S[g], P[g], outputs[g], *rows[g]) for g in range(groups)]

    q_shape, k_shape, v_shape = problem.inputs
    o_shape = problem.output_shape

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(k_shape, dtype),
        V: T.Tensor(v_shape, dtype),
        Out: T.Tensor(o_shape, dtype),
    ):
        with T.Kernel(tiles, heads, batches, threads=GROUP * (groups + 1)) as (bx, head, batch):
            s = allocate_shared()
            registers = allocate_registers()
            thread = T.get_thread_binding()
            tile = tiles - 1 - bx if causal else bx  # those that see most keys first
            blocks = seen(tile)
            if thread < GROUP:
                T.set_max_nreg(REGISTERS[groups][0], 0)
                if thread < 32:
                    produce(Q, K, V, s, tile, head, batch, blocks)
            else:
                run_consumers(thread, partial(consume, Out, s, registers, tile, head, batch, blocks), 0)

    return Program(main, pass_configs={"tl.disable_shared_memory_reuse": True})


@dataclass(frozen=True)
class _Shared:
    """Tiles in shared memory, and the barriers by which they change hands."""

    Q: Any
    K: Any
    V: Any
    out: Any
    Q_full: Any
    K_full: Any
    K_empty: Any
    V_full: Any
    V_empty: Any
    turn: Any


@dataclass(frozen=True)
class _Registers:
    """What one consumer group keeps: scores, their 16-bit copy, the output, and by row the softmax's state."""

    S: Any
    P: Any
    out: Any
    maximum: Any
    before: Any
    scale: Any
    sum: Any
    total: Any
