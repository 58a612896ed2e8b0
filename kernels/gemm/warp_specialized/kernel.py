"""GEMM with hand-made warp specialization: a TMA producer, one to three WGMMA consumer groups, optional clusters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.gemm.operands import TensorCoreOperands
from kernels.gemm.raster import Raster, Walk
from kernels.gemm.ring import Ring, multiply, scale_tile, store_tile, walk_program
from kernels.gemm.roles import Roles
from kernels.hopper import NUM_SMS
from kernels.operands import PLAIN, ceildiv, require


def warp_specialized(
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    block_K: int,
    num_stages: int,
    consumer_groups: int = 2,
    cluster_M: int = 1,
    cluster_N: int = 1,
    group_M: int = 8,
    persistent: bool = True,
    num_sms: int = NUM_SMS,
    wgmma_in_flight: int = 1,
    promote_steps: int = 0,
    unroll: int = 0,
    epilogue: str = "tma",
    epilogue_N: int = 64,
    epilogue_buffers: int = 2,
    stagger: int = 0,
    dependent_launch: bool = False,
    dynamic: tuple[str, ...] = (),
    registers: tuple[int, int] | None = None,
    eviction: tuple[str | None, str | None, str | None] = (None, None, None),
) -> Program:
    """One producer warp fills a ring of stages by TMA; consumer groups share each tile and run WGMMA on it.

    Unlike ``pipelined`` it keeps a WGMMA batch in flight over the k steps. It gives the producer's registers to the
    consumers, and loads the next tile while the last one is stored.

    Levers:

    - the tile: 256 columns move least data per flop, others may fill waves better. Each multiple of 16 is one WGMMA. A
      matmul's B is loaded in rows of up to 64 columns: 160 and 224 halve them to 32, other widths to 16.
    - ``num_stages`` of the ring.
    - ``persistent``: ``num_sms`` blocks walk the tiles, the epilogue overlaps the next loads; else one tile a block.
    - ``cluster_M``, ``cluster_N``: multicast B or A over 2 or 4 blocks, which halves the L2 reads of that operand.
    - ``group_M``: tile rows of a raster group.
    - ``wgmma_in_flight``: 1 frees a stage one step late, 0 drains every step.
    - ``promote_steps``: sums of so many k steps are added up in float32; 0: never. Tensor cores keep 14 bits of a sum
      of 8-bit products, too few for a long K. It takes a second set of accumulators.
    - ``unroll``: k steps in the body of the main loop; 0: nvcc's choice.
    - ``epilogue``: "tma", through ``epilogue_buffers`` rotating buffers of ``epilogue_N`` columns, or "direct".
    - ``stagger``: k steps by which a cluster's tile begins later in K than the tile before. Not all clusters then read
      the same part of a shared operand at once. It is for a skinny A that clusters multicast, and costs L2 hits
      elsewhere.
    - ``dependent_launch``: programmatic dependent launch, for launches that follow each other closely. When the kernel
      before ends, the blocks are resident and their barriers set up.
    - ``dynamic``: ("M",) compiles one kernel for any number of rows; it must be persistent.
    - ``registers``: of a producer's and a consumer's thread.
    - ``eviction``: L2 hints for A, B and C, such as "evict_first".

    Limits: sm_90a; row pitches in multiples of 16 bytes; 8-bit inputs for linear and scaledlinear only. M, N and K may
    be ragged: TMA fills with zeros and clips.

    Measured on an H200, time of torch / time of this, with ``dependent_launch`` (without it): 1024x1024x1024 1.168
    (1.062) by 128x64 tiles, 8 stages, one tile a block; 2048x2048x2048 1.015 (1.014); 4096x4096x4096 1.013 (1.010);
    linear 4096x14336x4096 1.013 (1.012); 2048x2048x16384 1.006 (0.997); these four by 128x256 tiles.

    Without ``dependent_launch``: 8192x8192x8192 1.025 (128x256); 16384x16384x512 1.090 (128x256, cluster_M=2);
    16384x16384x16384 1.032 (256x192, 3 stages); linear 64x8192x8192 1.060 (64x64x128, cluster_N=2, ``stagger=2``);
    linear 128x8192x8192 1.003 (64x128, 8 stages); scaledlinear 8192x8192x8192 in 8 bits 1.032 (128x192, 4 stages,
    ``promote_steps=4``).
    """
    require(epilogue in ("tma", "direct"), f"epilogue='{epilogue}' is not 'tma' or 'direct'")
    require(epilogue == "direct" or epilogue_buffers >= 1, "epilogue 'tma' needs at least one of epilogue_buffers")
    require(dynamic in ((), ("M",)), f"dynamic={dynamic} is not () or ('M',)")
    require(persistent or not dynamic, "with dynamic rows a grid of one tile a block is not known; make it persistent")
    operands = TensorCoreOperands.of(problem, (*PLAIN, "scaledlinear"))
    if dynamic:
        operands = replace(operands, M=T.dynamic("M"))
    roles = Roles(
        operands=operands,
        block_M=block_M,
        block_N=block_N,
        block_K=block_K,
        num_stages=num_stages,
        consumer_groups=consumer_groups,
        cluster_M=cluster_M,
        cluster_N=cluster_N,
        epilogue_N=epilogue_N,
        epilogue_buffers=epilogue_buffers if epilogue == "tma" else 0,
        wgmma_in_flight=wgmma_in_flight,
        stagger=stagger,
        dependent_launch=dependent_launch,
        registers=registers,
        eviction=eviction,
    )
    require(num_sms >= roles.cluster, f"num_sms={num_sms} does not hold a cluster of {roles.cluster} blocks")
    spare = (roles.consumer_registers or roles.launch_registers) - 32
    require(
        not promote_steps or 2 * roles.accumulator_registers <= spare,
        f"promote_steps={promote_steps}: two sets of {roles.accumulator_registers} accumulators, of {spare} registers",
    )
    raster = Raster(*roles.cluster_tiles, group_M)
    clusters = num_sms // roles.cluster
    if not dynamic:
        clusters = min(clusters, raster.total) if persistent else raster.total
    walk, k_steps = Walk(raster, clusters), roles.k_steps

    @T.macro
    def sum_up(ring: Ring, totals: list[Any], group: int, first: Any, thread: Any) -> None:
        """The sums of one tile, from step ``first`` on, into ``totals``."""
        if promote_steps == 0:
            multiply(roles, ring, group, first, k_steps, thread, unroll=unroll)
        else:
            T.clear(totals[group])
            for part in T.serial(ceildiv(k_steps, promote_steps)):
                k = part * promote_steps
                multiply(roles, ring, group, first + k, T.min(promote_steps, k_steps - k), thread, unroll=unroll)
                for i, j in T.Parallel(roles.rows, block_N):
                    totals[group][i, j] += ring.accumulators[group][i, j]

    @T.macro
    def consume(
        C: Any, ring: Ring, totals: list[Any], factors: Sequence[Any], cluster: Any, rank: Any, thread: Any, group: int
    ) -> None:
        for wave in T.serial(walk.waves):
            tile = walk.tile(wave, cluster)
            if tile < raster.total:
                sum_up(ring, totals, group, wave * k_steps, thread)
                tile_M, tile_N = raster.decode(tile)
                m0, n0 = roles.origin(tile_M, tile_N, rank)
                m0 = m0 + group * roles.rows
                if operands.scaled:
                    scale_tile(roles, totals[group], factors)
                if epilogue == "tma":
                    store_tile(roles, replace(ring, accumulators=totals), group, C, m0, n0)
                else:
                    T.copy(totals[group], C[m0 : m0 + roles.rows, n0 : n0 + block_N])
        if epilogue == "tma":
            T.tma_store_wait(0)

    @T.macro
    def allocate_totals(ring: Ring, *factors: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return (alloc_totals(roles) if promote_steps else ring.accumulators), factors

    return walk_program(roles, walk, consume, allocate_totals)


@T.macro
def alloc_totals(roles: Roles) -> list[Any]:
    return [
        T.alloc_fragment((roles.rows, roles.block_N), roles.operands.accumulator) for _ in range(roles.consumer_groups)
    ]
