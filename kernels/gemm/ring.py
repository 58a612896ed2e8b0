"""The stage ring between producer and consumers: loads, the main loop over k, and the epilogue.

Each stage has two mbarriers, full and empty, for the hand-over. In a cluster one block's load is multicast to all: the
tile of B when the blocks are stacked along M, the tile of A when they lie along N. A consumer then frees a stage in
every block of the cluster, since the loading block writes there too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Program
from kernels.gemm.raster import Walk
from kernels.gemm.roles import Roles, program_of, run_roles
from kernels.hopper import GROUP

NAMED_BARRIER = 8  # named barriers from here on are one per consumer group; TileLang takes them from 0


@dataclass(frozen=True)
class Ring:
    """The stages in shared memory with their barriers, and each consumer group's accumulators and store buffers."""

    A: Any
    B: Any
    full: Any
    empty: Any
    accumulators: list[Any]
    stores: list[list[Any]]


@T.macro
def allocate(roles: Roles) -> Ring:
    operands, groups = roles.operands, range(roles.consumer_groups)
    freed_by = [roles.sharers * roles.multicast] * roles.num_stages
    store_shape = (roles.rows, roles.epilogue_N)
    A_stages = T.alloc_shared((roles.num_stages, roles.block_M, roles.block_K), operands.input)
    B_stages = T.alloc_shared((roles.num_stages, *operands.B_tile(roles.block_N, roles.block_K)), operands.input)
    stores = [[T.alloc_shared(store_shape, operands.output) for _ in range(roles.buffers)] for _ in groups]
    accumulators = [T.alloc_fragment((roles.rows, roles.block_N), operands.accumulator) for _ in groups]
    full = T.alloc_barrier([1] * roles.num_stages)
    empty = T.alloc_cluster_barrier(freed_by) if roles.multicast > 1 else T.alloc_barrier(freed_by)
    return Ring(A_stages, B_stages, full, empty, accumulators, stores)


@T.macro
def load_stage(
    roles: Roles,
    ring: Ring,
    A: Any,
    B: Any,
    m0: Any,
    n0: Any,
    k0: Any,
    step: Any,
    load_more: Callable[[Any], None] | None = None,
) -> None:
    """Fill the stage of ``step`` as soon as the consumers have freed it; ``load_more(stage)`` adds to it."""
    stage = step % roles.num_stages
    everyone = (1 << roles.multicast) - 1
    T.mbarrier_wait_parity(ring.empty[stage], ((step // roles.num_stages) & 1) ^ 1)
    T.tma_copy(
        A[m0 : m0 + roles.block_M, k0 : k0 + roles.block_K],
        ring.A[stage, :, :],
        barrier=ring.full[stage],
        cluster_mask=everyone if roles.cluster_N > 1 else None,
        eviction_policy=roles.eviction[0],
    )
    T.tma_copy(
        roles.operands.B_region(B, n0, k0, roles.block_N, roles.block_K),
        ring.B[stage, :, :],
        barrier=ring.full[stage],
        cluster_mask=everyone if roles.cluster_M > 1 else None,
        eviction_policy=roles.eviction[1],
    )
    if load_more is not None:
        load_more(stage)
    if T.shuffle_elect(32):
        T.mbarrier_arrive(ring.full[stage])


@T.macro
def load_tiles(
    roles: Roles,
    ring: Ring,
    walk: Walk,
    A: Any,
    B: Any,
    cluster: Any,
    rank: Any,
    load_more: Callable[[Any, Any, Any], None] | None = None,
) -> None:
    """The producer's part of a walk: all k steps of one tile after another, as far ahead as the ring allows.

    ``load_more(m0, k, stage)`` adds further operands of a step to its stage.
    """
    for wave in T.serial(walk.waves):
        tile = walk.tile(wave, cluster)
        if tile < walk.raster.total:
            tile_M, tile_N = walk.raster.decode(tile)
            m0, n0 = roles.origin(tile_M, tile_N, rank)
            for k in T.serial(roles.k_steps):
                more = partial(load_more, m0, k) if load_more is not None else None
                load_stage(roles, ring, A, B, m0, n0, roles.k_start(tile, k, rank), wave * roles.k_steps + k, more)


def walk_program(
    roles: Roles,
    walk: Walk,
    consume: Callable[..., None],
    allocate_own: Callable[..., Sequence[Any]],
) -> Program:
    """The program in which one warp loads a walk's tiles into a ring and ``consume`` is run by each consumer group.

    ``consume`` takes C, the ring, all of ``allocate_own(ring, *factors)``, cluster, rank, thread and group.
    """

    @T.macro
    def run(A: Any, B: Any, C: Any, *factors: Any) -> None:
        with roles.launch(walk.clusters) as block:
            ring = allocate(roles)
            own = allocate_own(ring, *factors)
            cluster, rank = block // roles.cluster, block % roles.cluster
            thread = T.get_thread_binding()
            run_roles(
                roles,
                thread,
                partial(load_tiles, roles, ring, walk, A, B, cluster, rank),
                partial(consume, C, ring, *own, cluster, rank, thread),
            )

    return program_of(roles.operands.kernel(run), dynamic=roles.operands.dynamic)


@T.macro
def free_stage(roles: Roles, ring: Ring, stage: Any, thread: Any) -> None:
    if roles.multicast == 1:
        if T.shuffle_elect(GROUP):
            T.mbarrier_arrive(ring.empty[stage])
    else:
        if thread % GROUP < roles.multicast:
            T.mbarrier_arrive(ring.empty[stage], thread % GROUP)


@T.macro
def multiply(
    roles: Roles,
    ring: Ring,
    group: int,
    first: Any,
    steps: Any,
    thread: Any,
    issued: Callable[[], None] | None = None,
    unroll: int = 0,
    await_A: Callable[[Any], None] | None = None,
) -> None:
    """Accumulate ``steps`` stages of the ring, from step ``first`` on, into the group's accumulators.

    ``issued`` is a macro that runs once the last WGMMA is under way. ``unroll`` steps stand in the loop's body; 0
    leaves that to nvcc. ``await_A(k)`` waits for step k of an A that is kept whole beside the ring.
    """
    for k in T.unroll(steps, unroll_factor=unroll) if unroll else T.serial(steps):
        step = first + k
        stage = step % roles.num_stages
        if await_A is not None:
            await_A(k)
        T.mbarrier_wait_parity(ring.full[stage], (step // roles.num_stages) & 1)
        T.wgmma_gemm(
            ring.A[stage if await_A is None else k, roles.first_row(group) : roles.first_row(group) + roles.rows, :],
            ring.B[stage, :, :],
            ring.accumulators[group],
            transpose_B=roles.operands.transpose_B,
            clear_accum=(k == 0),
        )
        if issued is not None:
            if k == steps - 1:
                issued()
        T.wait_wgmma(roles.wgmma_in_flight)
        if roles.wgmma_in_flight == 0:
            free_stage(roles, ring, stage, thread)
        else:  # the batch before this one has ended, so its stage is the one to free
            if k > 0:
                free_stage(roles, ring, (step + roles.num_stages - 1) % roles.num_stages, thread)
    if roles.wgmma_in_flight > 0:
        T.wait_wgmma(0)
        free_stage(roles, ring, (first + steps - 1) % roles.num_stages, thread)
    # T.wgmma_gemm fences the accumulators before the wait; once more, so that nothing reads them early.
    T.warpgroup_fence_operand(ring.accumulators[group], num_regs=roles.accumulator_registers)


@T.macro
def scale_tile(roles: Roles, sums: Any, factors: Sequence[Any]) -> None:
    """Multiply a group's sums by two scalars in memory."""
    scale_A, scale_B = factors
    factor = T.alloc_var("float32")
    factor = scale_A[0] * scale_B[0]
    for i, j in T.Parallel(roles.rows, roles.block_N):
        sums[i, j] *= factor


@T.macro
def store_tile(roles: Roles, ring: Ring, group: int, C: Any, m0: Any, n0: Any, share: int = 0) -> None:
    """Convert, pass through the rotating shared-memory buffers, and leave the stores to the TMA unit.

    It stores all columns of the tile, or the given share of them in a split.
    """
    for column in list(range(roles.share // roles.epilogue_N)):
        c0 = share * roles.share + column * roles.epilogue_N
        buffer = ring.stores[group][column % roles.buffers]
        T.tma_store_wait(roles.buffers - 1)  # this buffer's last store has read it
        T.sync_threads(NAMED_BARRIER + group, GROUP)
        T.copy(ring.accumulators[group][:, c0 : c0 + roles.epilogue_N], buffer)
        T.fence_proxy_async()
        T.sync_threads(NAMED_BARRIER + group, GROUP)
        target = C[m0 : m0 + roles.rows, n0 + c0 : n0 + c0 + roles.epilogue_N]
        T.tma_copy(buffer, target, eviction_policy=roles.eviction[2])
