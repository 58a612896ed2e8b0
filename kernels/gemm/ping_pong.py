"""GEMM with hand-made warp specialization in turns: one consumer group stores while the other multiplies."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Program
from harness.problem import Problem
from kernels.gemm.operands import NUM_SMS, Operands
from kernels.gemm.raster import Raster
from kernels.gemm.ring import Ring, free_stage, load_stage, store_tile
from kernels.gemm.roles import GROUP, Roles, run_roles
from kernels.operands import ceildiv, require

GROUPS = 2


@dataclass(frozen=True, kw_only=True)
class Turns(Roles):
    """Roles where a consumer group owns a whole tile, and every second tile of the block."""

    @property
    def rows(self) -> int:
        return self.block_M

    @property
    def shared_bytes(self) -> int:
        stores = self.buffers * self.block_M * self.epilogue_N * self.operands.output_bytes
        return super().shared_bytes + (GROUPS - 1) * stores


def ping_pong(
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    block_K: int,
    num_stages: int,
    cluster_M: int = 1,
    cluster_N: int = 1,
    group_M: int = 8,
    num_sms: int = NUM_SMS,
    wgmma_in_flight: int = 1,
    epilogue_N: int = 64,
    epilogue_buffers: int = 1,
    registers: tuple[int, int] | None = None,
    eviction: tuple[str | None, str | None] = (None, None),
) -> Program:
    """One producer warp fills a ring of stages for tile after tile; two consumer groups take the tiles in turns.

    In ``warp_specialized`` the tensor cores wait while the accumulators of a tile are converted and handed to the TMA
    unit. Here they work for the other group meanwhile, at the price of a tile that one group can hold: at most 192
    columns of 128 rows, which loads more per flop. It should gain where K is short and the output large.

    A group may enter its main loop only when the other has seen all of its stages arrive: the parity of a stage's
    barrier tells this load from the last, and not from the one before, so nobody may wait for a load two ahead.

    Levers: those of ``warp_specialized``, without ``consumer_groups``, ``persistent`` and ``epilogue``.
    ``epilogue_buffers`` are of each group.

    Limits: those of ``warp_specialized``; block_M is 128.

    Not measured yet: it compiles without spills, and its barriers are run on a CPU (tests/kernels/test_protocol.py).
    """
    operands = Operands.of(problem)
    require(block_M == 128, f"block_M={block_M}: a consumer group takes 128 rows, two WGMMAs high")
    require(epilogue_buffers >= 1, "each group needs at least one of epilogue_buffers")
    roles = Turns(
        operands=operands,
        block_M=block_M,
        block_N=block_N,
        block_K=block_K,
        num_stages=num_stages,
        consumer_groups=GROUPS,
        cluster_M=cluster_M,
        cluster_N=cluster_N,
        epilogue_N=epilogue_N,
        epilogue_buffers=epilogue_buffers,
        wgmma_in_flight=wgmma_in_flight,
        registers=registers,
        eviction=eviction,
    )
    require(num_sms >= roles.cluster, f"num_sms={num_sms} does not hold a cluster of {roles.cluster} blocks")
    raster = Raster(*roles.cluster_tiles, group_M)
    clusters = min(num_sms // roles.cluster, raster.total)
    waves, k_steps = ceildiv(raster.total, clusters), roles.k_steps

    @T.macro
    def produce(A: Any, B: Any, ring: Ring, cluster: Any, rank: Any) -> None:
        for wave in T.serial(waves):
            tile = wave * clusters + cluster
            if tile < raster.total:
                tile_M, tile_N = raster.decode(tile)
                m0, n0 = roles.origin(tile_M, tile_N, rank)
                for k in T.serial(k_steps):
                    load_stage(roles, ring, A, B, m0, n0, k * block_K, wave * k_steps + k)

    @T.macro
    def consume(C: Any, ring: Ring, turn: Any, cluster: Any, rank: Any, thread: Any, group: int) -> None:
        for own in T.serial(ceildiv(waves - group, GROUPS)):
            wave = own * GROUPS + group
            tile = wave * clusters + cluster
            if tile < raster.total:
                # Group 0 begins; each later turn comes from the other group's last main loop.
                T.mbarrier_wait_parity(turn[group], (own & 1) ^ (1 - group))
                multiply(roles, ring, turn, group, wave * k_steps, thread)
                tile_M, tile_N = raster.decode(tile)
                m0, n0 = roles.origin(tile_M, tile_N, rank)
                store_tile(roles, ring, group, C, m0, n0)
        T.tma_store_wait(0)

    @T.prim_func
    def main(
        A: T.Tensor(operands.A_shape, operands.input),
        B: T.Tensor(operands.B_shape, operands.input),
        C: T.Tensor(operands.C_shape, operands.output),
    ):
        with roles.launch(clusters) as block:
            ring = allocate_turns(roles)
            turn = T.alloc_barrier([1] * GROUPS)
            cluster, rank = block // roles.cluster, block % roles.cluster
            thread = T.get_thread_binding()
            run_roles(
                roles,
                thread,
                partial(produce, A, B, ring, cluster, rank),
                partial(consume, C, ring, turn, cluster, rank, thread),
            )

    # Warp groups run at their own pace: no buffer may take another's space because of where it stands in the program.
    return Program(main, pass_configs={"tl.disable_shared_memory_reuse": True})


@T.macro
def allocate_turns(roles: Turns) -> Ring:
    """The ring, whose stages are each freed by the one group that used it."""
    operands = roles.operands
    store_shape = (roles.rows, roles.epilogue_N)
    A_stages = T.alloc_shared((roles.num_stages, roles.block_M, roles.block_K), operands.input)
    B_stages = T.alloc_shared((roles.num_stages, *operands.B_tile(roles.block_N, roles.block_K)), operands.input)
    stores = [[T.alloc_shared(store_shape, operands.output) for _ in range(roles.buffers)] for _ in range(GROUPS)]
    accumulators = [T.alloc_fragment((roles.rows, roles.block_N), operands.accumulator) for _ in range(GROUPS)]
    full = T.alloc_barrier([1] * roles.num_stages)
    freed_by = [roles.cluster] * roles.num_stages
    empty = T.alloc_cluster_barrier(freed_by) if roles.cluster > 1 else T.alloc_barrier(freed_by)
    return Ring(A_stages, B_stages, full, empty, accumulators, stores)


@T.macro
def multiply(roles: Turns, ring: Ring, turn: Any, group: int, first: Any, thread: Any) -> None:
    """Accumulate the tile whose first step is ``first``; the turn passes when its last WGMMA is issued."""
    for k in T.serial(roles.k_steps):
        step = first + k
        stage = step % roles.num_stages
        T.mbarrier_wait_parity(ring.full[stage], (step // roles.num_stages) & 1)
        T.wgmma_gemm(
            ring.A[stage, :, :],
            ring.B[stage, :, :],
            ring.accumulators[group],
            transpose_B=roles.operands.transpose_B,
            clear_accum=(k == 0),
        )
        if k == roles.k_steps - 1:
            if T.shuffle_elect(GROUP):
                T.mbarrier_arrive(turn[1 - group])
        T.wait_wgmma(roles.wgmma_in_flight)
        if roles.wgmma_in_flight == 0:
            free_stage(roles, ring, stage, thread)
        else:  # the batch before this one has ended, so its stage is the one to free
            if k > 0:
                free_stage(roles, ring, (step + roles.num_stages - 1) % roles.num_stages, thread)
    if roles.wgmma_in_flight > 0:
        T.wait_wgmma(0)
        free_stage(roles, ring, (first + roles.k_steps - 1) % roles.num_stages, thread)
    # T.wgmma_gemm fences the accumulators before the wait; once more, so that nothing reads them early.
    T.warpgroup_fence_operand(ring.accumulators[group], num_regs=roles.accumulator_registers)
