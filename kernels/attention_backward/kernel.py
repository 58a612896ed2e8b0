"""The gradients of causal attention with hand-made warp specialization: a block has 128 keys, and meets all queries."""

from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program, Workspace
from kernels.attention_backward.block import (
    BLOCK_N,
    GROUPS,
    MASKED,
    REGISTERS,
    ROWS,
    THREADS,
    WARP,
    GradientBlock,
    GradientRegisters,
    GradientTiles,
    allocate_registers,
    allocate_shared,
)
from kernels.attention_backward.ends import COLUMNS, finish, prepare, workspaces
from kernels.attention_backward.finishing import COUNT_FUNCTION, FINISH_FUNCTIONS, WARPS, finish_queries, tell_added
from kernels.attention_backward.statistics import STATISTICS_FUNCTIONS, await_statistics, compute_statistics
from kernels.hopper import GROUP, NUM_SMS, run_consumers, wait_for_kernel_before
from kernels.operands import require

LEAST = -(2.0**100)  # a masked score
ALL_BARRIER = 8  # named barriers from here on are the kernel's; TileLang takes them from 0
GROUP_BARRIER = 10  # one of each group, like the next
READ_BARRIER = 12

FUNCTIONS = r"""
// A product that clears its accumulators reads them all the same, as ptxas sees it. So they would hold their registers
// from the last use to the next; from here on they hold anything.
template <int count>
static __device__ __forceinline__ void forget(float *registers) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "=f"(registers[i]));
}
// Of a WGMMA accumulator a thread has four numbers of every eight columns: two rows, two columns.
template <int chunks>
static __device__ __forceinline__ void put_sums(const float *own, float *sums, int thread) {
#pragma unroll
  for (int i = 0; i < chunks; ++i)
    reinterpret_cast<float4 *>(sums)[i * 128 + thread] =
        make_float4(own[4 * i], own[4 * i + 1], own[4 * i + 2], own[4 * i + 3]);
}
template <int chunks>
static __device__ __forceinline__ void add_sums(const float *own, float *sums, int thread) {
#pragma unroll
  for (int i = 0; i < chunks; ++i)
    atomicAdd(reinterpret_cast<float4 *>(sums) + i * 128 + thread,
              make_float4(own[4 * i], own[4 * i + 1], own[4 * i + 2], own[4 * i + 3]));
}
"""


def backward(
    problem: Problem,
    *,
    num_stages: int = 2,
    overlap: bool = True,
    bulk_add: bool = True,
    alternate: bool = False,
    few_fences: bool = False,
    early_free: bool = False,
    heads_at_once: int = 1,
    finish_within: bool = False,
    statistics_within: bool = False,
    skip_hidden: bool = False,
    dependent_launch: bool = False,
    num_sms: int = NUM_SMS,
) -> Program:
    """dQ, dK and dV[B,H,S,D] of causal attention; each consumer group 64 keys.

    Three kernels. The first brings each query's two statistics, and zeros for the sums of dQ. In the main one each
    block has 128 keys, of which K and V stay in shared memory. Their gradients stay in registers. One warp loads the
    queries that see them, with Q, dO and the statistics of 64 at a time. Each step has five products:

    - Pᵀ = exp2(K Qᵀ - the logarithm of the query's sum), 64 keys of a group by 64 queries;
    - dSᵀ = Pᵀ (V dOᵀ - the query's product of O and dO);
    - dV += Pᵀ dO and dK += dSᵀ Q, with the left side in registers, since both are transposed already;
    - dQ += dS K over the keys of both groups, which leave dS in shared memory. Each group has half of the columns.

    Other blocks add to the same dQ, so its sums are float32 in global memory. They lie there in the order of a
    WGMMA's registers: a warp then adds 512 bytes side by side. The last kernel brings them into dQ's order and dtype.
    The design is that of FlashAttention-3 (Shah et al., 2024; https://github.com/Dao-AILab/flash-attention).

    Levers:

    - ``overlap``: each product is waited for when its result is needed. Without it, before the next one starts.
    - ``bulk_add``: dQ of a step goes to shared memory, and a bulk copy adds it to the sums. Otherwise each thread
      sends eight atomic additions of 16 bytes, and they compete with the loads of the softmax for issue.
    - ``alternate``: the groups add at different times and by different ways. The first multiplies for dQ before dV, and
      adds in bulk. The second multiplies for dV first, and adds by atomics.
    - ``few_fences``: a group fences what it stores before any product follows, and TileLang adds no fence then. A fence
      waits for additions under way.
    - ``early_free``: a group says that it has read dS as soon as it has its dQ. Otherwise the groups meet before the
      next dS is written, and the faster one waits there.
    - ``finish_within``: two warps beside the producer finish dQ of earlier heads, and leave zeros, while the products
      go on. So the first kernel writes no zeros, and the last one finishes the last heads only.
    - ``statistics_within``: three warps beside the producer compute the statistics of later heads. So the first kernel
      computes those of the first heads only.
    - ``skip_hidden``: the mask hides the second group's keys from the first 64 queries. Then this group computes only
      its half of dQ for them.
    - ``heads_at_once``: the heads in use at a time; their queries share the L2. More heads put the long blocks first.
    - ``dependent_launch``: a kernel is launched while the one before runs, and then waits for its end.
    - ``num_stages`` of Q and of dO.

    Limits: sm_90a; bf16 and fp16; heads of 128; tokens in multiples of 128. The order in which blocks add to dQ, and
    so its last bits, may change from launch to launch. With ``finish_within`` sums and counters are zero at first, and
    every launch leaves them zero; launches on one workspace must not overlap.
    """
    require(overlap or not alternate, "alternate needs overlap")
    block = GradientBlock.of(
        problem,
        num_stages=num_stages,
        bulk_add=bulk_add,
        alternate=alternate,
        heads_at_once=heads_at_once,
        finish_within=finish_within,
        statistics_within=statistics_within,
        num_sms=num_sms,
    )

    @T.macro
    def load(tensor: Any, head: Any, first: Any, buffer: Any, full: Any, at: Any) -> None:
        batch, own = head // block.heads, head % block.heads
        T.tma_copy(tensor[batch, own, first : first + ROWS, :], buffer[at, :, :], barrier=full[at])

    @T.macro
    def arrive(full: Any, at: Any) -> None:
        if T.shuffle_elect(WARP):
            T.mbarrier_arrive(full[at])

    @T.macro
    def load_keys(tensor: Any, head: Any, row: Any, buffer: list[Any], full: Any) -> None:
        batch, own = head // block.heads, head % block.heads
        for group in list(range(GROUPS)):
            n0 = row * BLOCK_N + group * ROWS
            T.tma_copy(tensor[batch, own, n0 : n0 + ROWS, :], buffer[group], barrier=full[group])
            arrive(full, group)

    @T.macro
    def produce(
        Q: Any,
        K: Any,
        V: Any,
        dO: Any,
        statistics: Any,
        counters: Any,
        shared: GradientTiles,
        row: Any,
        head: Any,
    ) -> None:
        load_keys(K, head, row, shared.K, shared.K_full)
        for step in T.serial(block.steps(row)):
            m = row * MASKED + step
            stage, parity = step % num_stages, ((step // num_stages) & 1) ^ 1
            T.mbarrier_wait_parity(shared.Q_empty[stage], parity)
            load(Q, head, m * ROWS, shared.Q, shared.Q_full, stage)
            if statistics_within:
                if step == 0:
                    await_statistics(block, counters, head)
            T.tma_copy(
                statistics[head * block.query_blocks + m, :],
                shared.statistics[stage, :],
                barrier=shared.Q_full[stage],
            )
            arrive(shared.Q_full, stage)
            if step == 0:
                load_keys(V, head, row, shared.V, shared.V_full)
            T.mbarrier_wait_parity(shared.dO_empty[stage], parity)
            load(dO, head, m * ROWS, shared.dO, shared.dO_full, stage)
            arrive(shared.dO_full, stage)

    @T.macro
    def await_product(registers: Any, columns: int, in_flight: int) -> None:
        T.wait_wgmma(in_flight if overlap else 0)
        # wgmma_gemm fences its accumulators before the wait; once more, so that nothing reads them early.
        T.warpgroup_fence_operand(registers, num_regs=ROWS * columns // GROUP)

    @T.macro
    def end_product() -> None:
        if not overlap:
            T.wait_wgmma(0)

    @T.macro
    def free(empty: Any, step: Any, thread: Any) -> None:
        if thread % GROUP == 0:
            T.mbarrier_arrive(empty[step % num_stages])

    @T.macro
    def forget(registers: Any) -> None:
        T.call_extern("handle", f"forget<{ROWS * ROWS // GROUP}>", registers.data)

    @T.macro
    def start_scores(shared: GradientTiles, r: GradientRegisters, group: int, step: Any) -> None:
        stage = step % num_stages
        T.mbarrier_wait_parity(shared.Q_full[stage], (step // num_stages) & 1)
        forget(r.P)
        T.wgmma_gemm(
            shared.K[group],
            shared.Q[stage, :, :],
            r.P,
            transpose_B=True,
            clear_accum=True,
        )

    @T.macro
    def exponentiate(shared: GradientTiles, r: GradientRegisters, group: int, step: Any) -> None:
        """P from the scores; a key must not come after its query."""
        stage = step % num_stages
        if (step == group) if skip_hidden else (step < MASKED):
            for i, j in T.Parallel(ROWS, ROWS):
                r.P[i, j] = T.if_then_else(group * ROWS + i <= step * ROWS + j, r.P[i, j], LEAST)
        for i, j in T.Parallel(ROWS, ROWS):
            r.P[i, j] = T.exp2(r.P[i, j] * block.to_log2 - shared.statistics[stage, j])

    @T.macro
    def add_queries(shared: GradientTiles, r: GradientRegisters, sums: Any, at: Any, thread: Any, group: int) -> None:
        """Add the group's half of dQ of 64 queries to the sums."""
        own, first = thread % GROUP, group * ROWS * block.half
        names = "put", "reduce" if finish_within else "add"
        put, add = (f"{name}_sums<{block.half // COLUMNS}>" for name in names)
        if group < block.bulk_groups:
            T.tma_store_wait(0)  # the last addition has read the buffer
            T.sync_threads(GROUP_BARRIER + group, GROUP)
            T.call_extern("handle", put, r.dQ.data, T.address_of(shared.sums[group, 0]), own)
            T.fence_proxy_async()
            T.sync_threads(GROUP_BARRIER + group, GROUP)
            if own == 0:
                T.call_extern(
                    "handle",
                    "tl::tma_store_add",
                    T.access_ptr(shared.sums[group, 0], "r") if few_fences else T.address_of(shared.sums[group, 0]),
                    T.access_ptr(sums[at, first], "rw"),
                    ROWS * block.half * 4,
                )
                T.tma_store_arrive()
        else:
            T.call_extern("handle", add, r.dQ.data, T.access_ptr(sums[at, first], "rw"), own)

    @T.macro
    def meet() -> None:
        T.sync_threads(ALL_BARRIER, GROUPS * GROUP)

    @T.macro
    def have_read(group: int) -> None:
        """Tell the other group that dS may be overwritten."""
        if early_free:
            T.named_barrier_arrive(READ_BARRIER + 1 - group, GROUPS * GROUP)

    @T.macro
    def await_readers(group: int) -> None:
        """Wait until both groups have read dS of the step before."""
        if early_free:
            T.sync_threads(READ_BARRIER + group, GROUPS * GROUP)
        else:
            meet()

    @T.macro
    def take_scores(shared: GradientTiles, r: GradientRegisters, group: int, step: Any) -> None:
        """P and dS of a step, and both in 16 bits."""
        stage, parity = step % num_stages, (step // num_stages) & 1
        start_scores(shared, r, group, step)
        end_product()
        T.mbarrier_wait_parity(shared.dO_full[stage], parity)
        forget(r.dS)
        T.wgmma_gemm(shared.V[group], shared.dO[stage, :, :], r.dS, transpose_B=True, clear_accum=True)
        await_product(r.P, ROWS, 1)
        exponentiate(shared, r, group, step)
        await_product(r.dS, ROWS, 0)
        for i, j in T.Parallel(ROWS, ROWS):
            r.dS[i, j] = r.P[i, j] * (r.dS[i, j] - shared.statistics[stage, ROWS + j])
        T.copy(r.P, r.P16)
        T.copy(r.dS, r.dS16)

    @T.macro
    def start_dQ(shared: GradientTiles, r: GradientRegisters, group: int, groups: int) -> None:
        """The group's half of dQ from the keys of the first ``groups``."""
        forget(r.dQ)
        for keys in list(range(groups)):
            T.wgmma_gemm(
                shared.dS[keys],
                shared.K[keys][:, group * block.half : (group + 1) * block.half],
                r.dQ,
                transpose_A=True,
                clear_accum=keys == 0,
            )

    @T.macro
    def start_dK(shared: GradientTiles, r: GradientRegisters, step: Any) -> None:
        T.wgmma_gemm(r.dS16, shared.Q[step % num_stages, :, :], r.dK)

    @T.macro
    def start_dV(shared: GradientTiles, r: GradientRegisters, step: Any) -> None:
        T.wgmma_gemm(r.P16, shared.dO[step % num_stages, :, :], r.dV)

    @T.macro
    def end_dV(shared: GradientTiles, r: GradientRegisters, step: Any, thread: Any, in_flight: int) -> None:
        await_product(r.dV, block.depth, in_flight)
        free(shared.dO_empty, step, thread)

    @T.macro
    def take_step(
        shared: GradientTiles,
        r: GradientRegisters,
        sums: Any,
        place: tuple[Any, Any],
        thread: Any,
        group: int,
        step: Any,
    ) -> None:
        row, head = place
        queries_first = alternate and group == 0
        take_scores(shared, r, group, step)
        await_readers(group)
        T.copy(r.dS16, shared.dS[group])
        if few_fences:
            T.fence_proxy_async()
        if not queries_first:
            start_dV(shared, r, step)
        end_product()
        if not few_fences:
            T.fence_proxy_async()
        meet()
        start_dQ(shared, r, group, GROUPS)
        if queries_first:
            start_dV(shared, r, step)
        else:
            end_dV(shared, r, step, thread, GROUPS)
        start_dK(shared, r, step)
        await_product(r.dQ, block.half, 2 if queries_first else 1)
        have_read(group)
        add_queries(shared, r, sums, head * block.query_blocks + row * MASKED + step, thread, group)
        if queries_first:
            end_dV(shared, r, step, thread, 1)
        await_product(r.dK, block.depth, 0)
        free(shared.Q_empty, step, thread)

    @T.macro
    def take_hidden_step(
        shared: GradientTiles, r: GradientRegisters, sums: Any, place: tuple[Any, Any], thread: Any, group: int
    ) -> None:
        """The first step of the second group, with keys that come after all queries: only its half of dQ."""
        row, head = place
        await_readers(group)
        T.clear(r.dS16)
        T.copy(r.dS16, shared.dS[group])
        T.fence_proxy_async()
        meet()
        start_dQ(shared, r, group, 1)
        await_product(r.dQ, block.half, 0)
        have_read(group)
        add_queries(shared, r, sums, head * block.query_blocks + row * MASKED, thread, group)
        free(shared.dO_empty, 0, thread)
        free(shared.Q_empty, 0, thread)

    @T.macro
    def store(tensor: Any, registers: Any, buffer: list[Any], row: Any, head: Any, group: int) -> None:
        """The rows of a group through shared memory that no product reads any more."""
        batch, own = head // block.heads, head % block.heads
        n0 = row * BLOCK_N + group * ROWS
        T.copy(registers, buffer[group])
        T.fence_proxy_async()
        T.sync_threads(GROUP_BARRIER + group, GROUP)
        T.tma_copy(buffer[group], tensor[batch, own, n0 : n0 + ROWS, :])

    @T.macro
    def consume(
        dK: Any,
        dV: Any,
        sums: Any,
        counters: Any,
        shared: GradientTiles,
        registers: list[Any],
        row: Any,
        head: Any,
        thread: Any,
        group: int,
    ) -> None:
        r = registers[group]
        take = partial(take_step, shared, r, sums, (row, head), thread, group)
        T.clear(r.dK)
        T.clear(r.dV)
        for keys in list(range(GROUPS)):
            T.mbarrier_wait_parity(shared.K_full[keys], 0)
        T.mbarrier_wait_parity(shared.V_full[group], 0)
        have_read(group)
        hidden = int(skip_hidden and group > 0)  # steps
        if hidden:
            take_hidden_step(shared, r, sums, (row, head), thread, group)
        for step in T.serial(hidden, block.steps(row)):
            take(step)
        store(dV, r.dV, shared.V, row, head, group)
        for i, j in T.Parallel(ROWS, block.depth):
            r.dK[i, j] *= block.scale
        meet()  # both groups have read all of K
        if finish_within:
            tell_added(block, counters, head, thread)
        store(dK, r.dK, shared.K, row, head, group)
        T.tma_store_wait(0)

    dtype, tensor = block.dtype, problem.inputs[0]
    sums_of, statistics_of, counters_of = workspaces(block)

    @T.prim_func
    def main(
        Q: T.Tensor(tensor, dtype),
        K: T.Tensor(tensor, dtype),
        V: T.Tensor(tensor, dtype),
        O: T.Tensor(tensor, dtype),  # noqa: E741
        dO: T.Tensor(tensor, dtype),
        lse: T.Tensor(tensor[:3], "float32"),
        dQ: T.Tensor(tensor, dtype),
        dK: T.Tensor(tensor, dtype),
        dV: T.Tensor(tensor, dtype),
        sums: T.Tensor(sums_of[0], "float32"),
        statistics: T.Tensor(statistics_of[0], "float32"),
        counters: T.Tensor(counters_of[0], "int32"),
    ):
        prepare(block, O, dO, lse, sums, statistics, counters)
        functions = FUNCTIONS + COUNT_FUNCTION * (finish_within or statistics_within)
        functions += FINISH_FUNCTIONS * finish_within + STATISTICS_FUNCTIONS * statistics_within
        with T.Kernel(block.rows * block.all_heads, threads=THREADS, prelude=functions) as number:
            shared = allocate_shared(block)
            registers = allocate_registers(block)
            row = T.alloc_var("int32")
            head = T.alloc_var("int32")
            place = block.place(number)
            row = place[0]
            head = place[1]
            thread = T.get_thread_binding()
            if dependent_launch:
                wait_for_kernel_before(let_next_start=False)
            if thread < GROUP:
                T.set_max_nreg(REGISTERS[0], 0)
                if thread < WARP:
                    produce(Q, K, V, dO, statistics, counters, shared, row, head)
                if finish_within:
                    if thread >= WARP and thread < WARP * (1 + WARPS):
                        finish_queries(block, shared, sums, counters, dQ, (row, head), thread, thread // WARP - 1)
                if statistics_within:
                    if thread >= WARP:
                        compute_statistics(block, O, dO, lse, statistics, counters, (row, head), thread)
            else:
                work = partial(consume, dK, dV, sums, counters, shared, registers, row, head, thread)
                run_consumers(GROUPS, REGISTERS[1], thread, work, 0)
        finish(block, sums, counters, dQ, dependent_launch)

    return Program(
        main,
        pass_configs={
            "tl.disable_shared_memory_reuse": True,  # warp groups run at their own pace
            "tl.enable_fast_math": True,  # exp2f is one MUFU then, without its care for denormal numbers
            "tl.disable_safe_memory_legalize": True,  # it guards each store, and none is out of bounds
            "tl.disable_thread_storage_sync": True,  # barriers stand where they are needed
        },
        workspaces=tuple(Workspace(*each) for each in (sums_of, statistics_of, counters_of)),
    )
