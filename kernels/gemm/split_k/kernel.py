"""Split-K GEMM: each block of a cluster multiplies a part of K for one tile; they add up in shared memory."""

from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.gemm.operands import TensorCoreOperands
from kernels.gemm.raster import Raster, Walk
from kernels.gemm.ring import NAMED_BARRIER, Ring, multiply, store_tile, walk_program
from kernels.gemm.roles import Roles
from kernels.hopper import GROUP
from kernels.operands import require

COLUMNS = 32  # added at once; more would hold more of a peer's sums in registers


def split_k(
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    block_K: int,
    num_stages: int,
    consumer_groups: int = 1,
    split: int = 2,
    group_M: int = 8,
    wgmma_in_flight: int = 1,
    epilogue_N: int = 64,
    epilogue_buffers: int = 1,
    stagger: int = 0,
    dependent_launch: bool = False,
    registers: tuple[int, int] | None = None,
    eviction: tuple[str | None, str | None, str | None] = (None, None, None),
) -> Program:
    """One tile a cluster: block r of ``split`` multiplies the k steps r, r + split, ...; then each adds up its columns.

    Where tiles are too few for the SMs, narrower ones would fill them but load more, since every block across an
    operand reads it once. A split keeps the wide tile. A peer receives the float32 sums of its columns by a bulk copy
    into its shared memory, which completes on a barrier there. A block adds the sums of its own columns in the order
    of the ranks before it. So the result does not change from launch to launch. Neighbouring blocks read neighbouring
    steps of K, which lie in the same rows of memory.

    Levers: those of ``warp_specialized`` without its clusters and its persistent grid; ``split`` (2 or 4).

    Limits: those of ``warp_specialized``; every block stores block_N / split columns, a multiple of epilogue_N; the
    sums on their way take 2 x block_M x (block_N - block_N / split) x 4 bytes of shared memory from the ring.

    Measured on an H200, time of torch / time of this: linear 64x8192x8192 1.024 (64x128, 7 stages), 128x8192x8192 0.951
    (128x128, 4 stages), 1024x1024x1024 0.736 (128x128). One tile a block, of half the width, is ahead everywhere so
    far: 1.040, 1.008, 1.064. The exchange, and the stages that its buffers take, cost more than the reads saved.
    """
    operands = TensorCoreOperands.of(problem)
    require(split in (2, 4), f"split={split} is not 2 or 4")
    require(epilogue_buffers >= 1, "split_k needs at least one of epilogue_buffers")
    require(
        block_N % (split * epilogue_N) == 0,
        f"block_N={block_N} over split={split} blocks is not a multiple of epilogue_N={epilogue_N}",
    )
    roles = Roles(
        operands=operands,
        block_M=block_M,
        block_N=block_N,
        block_K=block_K,
        num_stages=num_stages,
        consumer_groups=consumer_groups,
        split=split,
        stagger=stagger,
        epilogue_N=epilogue_N,
        epilogue_buffers=epilogue_buffers,
        wgmma_in_flight=wgmma_in_flight,
        dependent_launch=dependent_launch,
        registers=registers,
        eviction=eviction,
    )
    raster = Raster(*roles.cluster_tiles, group_M)
    walk = Walk(raster, raster.total)
    peers, share, rows = split - 1, roles.share, roles.rows

    @T.macro
    def exchange(ring: Ring, partials: Any, arrived: Any, rank: Any, group: int) -> None:
        """Leave each peer its columns' sums, and add those that the peers leave here."""
        sums = ring.accumulators[group]
        for distance in list(range(1, split)):
            for owner in list(range(split)):
                if (rank + distance) % split == owner:
                    T.copy(sums[:, owner * share : (owner + 1) * share], partials[distance - 1, group, :, :])
            T.fence_proxy_async()
            T.sync_threads(NAMED_BARRIER + group, GROUP)
            T.copy_cluster(
                partials[distance - 1, group, :, :],
                partials[peers + distance - 1, group, :, :],
                dst_block=(rank + distance) % split,
                remote_barrier=arrived[(distance - 1) * consumer_groups + group],
            )
        for distance in list(range(1, split)):
            T.mbarrier_wait_parity(arrived[(distance - 1) * consumer_groups + group], 0)
            for owner in list(range(split)):
                if rank == owner:
                    for column in list(range(owner * share, (owner + 1) * share, COLUMNS)):
                        for i, j in T.Parallel(rows, COLUMNS):
                            sums[i, column + j] += partials[peers + distance - 1, group, i, column - owner * share + j]

    @T.macro
    def consume(
        C: Any, ring: Ring, partials: Any, arrived: Any, cluster: Any, rank: Any, thread: Any, group: int
    ) -> None:
        multiply(roles, ring, group, 0, roles.k_steps, thread)
        exchange(ring, partials, arrived, rank, group)
        tile_M, tile_N = raster.decode(cluster)
        m0, n0 = roles.origin(tile_M, tile_N, rank)
        for owner in list(range(split)):
            if rank == owner:
                store_tile(roles, ring, group, C, m0 + roles.first_row(group), n0, owner)
        T.tma_store_wait(0)

    @T.macro
    def allocate_exchange(ring: Ring) -> tuple[Any, Any]:
        partials = T.alloc_shared((2 * peers, consumer_groups, rows, share), operands.accumulator)
        arrived = T.alloc_cluster_barrier([1] * (peers * consumer_groups))
        return partials, arrived

    return walk_program(roles, walk, consume, allocate_exchange)
