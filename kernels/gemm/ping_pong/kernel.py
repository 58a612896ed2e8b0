"""GEMM with hand-made warp specialization in turns: one consumer group stores while the other multiplies."""

from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.gemm.operands import TensorCoreOperands
from kernels.gemm.raster import Raster, Walk
from kernels.gemm.ring import Ring, multiply, store_tile, walk_program
from kernels.gemm.roles import Roles
from kernels.hopper import GROUP, NUM_SMS
from kernels.operands import ceildiv, require

GROUPS = 2


@T.macro
def pass_turn(turn: Any, group: int) -> None:
    if T.shuffle_elect(GROUP):
        T.mbarrier_arrive(turn[1 - group])


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
    dependent_launch: bool = False,
    registers: tuple[int, int] | None = None,
    eviction: tuple[str | None, str | None, str | None] = (None, None, None),
) -> Program:
    """One producer warp fills a ring of stages for tile after tile; two consumer groups take the tiles in turns.

    In ``warp_specialized`` the tensor cores wait while the accumulators of a tile are converted and handed to the TMA
    unit. Here they work for the other group meanwhile. The price is a smaller tile, which loads more per flop: one
    group holds at most 192 columns of 128 rows. It gains where K is short and the output large.

    A group may enter its main loop only when the other has seen all of its stages arrive. The parity of a stage's
    barrier tells a load from the one before, but not from the one before that: a wait for a load two ahead would end
    too early.

    Levers: those of ``warp_specialized``, without ``consumer_groups``, ``persistent`` and ``epilogue``.
    ``epilogue_buffers`` are of each group.

    Limits: those of ``warp_specialized``; block_M is 64 or 128.

    Measured on an H200, time of torch / time of this: 16384x16384x512 in fp16 1.176 (128x192, 4 stages, group_M=32;
    1.168 with group_M=16 and cluster_M=2), where ``warp_specialized`` reaches 1.094; with 128x128 tiles 1.091.
    8192x8192x8192 1.031 and linear 1.027 (128x192, group_M=8), ahead of the others; linear 4096x14336x4096 1.005 and
    4096x4096x4096 0.950 (128x128), behind 128x256 tiles.
    """
    operands = TensorCoreOperands.of(problem)
    require(block_M in (64, 128), f"block_M={block_M}: a consumer group takes 64 or 128 rows, one or two WGMMAs high")
    require(epilogue_buffers >= 1, "each group needs at least one of epilogue_buffers")
    roles = Roles(
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
        turns=True,
        dependent_launch=dependent_launch,
        registers=registers,
        eviction=eviction,
    )
    require(num_sms >= roles.cluster, f"num_sms={num_sms} does not hold a cluster of {roles.cluster} blocks")
    raster = Raster(*roles.cluster_tiles, group_M)
    walk, k_steps = Walk(raster, min(num_sms // roles.cluster, raster.total)), roles.k_steps

    @T.macro
    def consume(C: Any, ring: Ring, turn: Any, cluster: Any, rank: Any, thread: Any, group: int) -> None:
        for own in T.serial(ceildiv(walk.waves - group, GROUPS)):
            wave = own * GROUPS + group
            tile = walk.tile(wave, cluster)
            if tile < raster.total:
                # Group 0 begins; each later turn comes from the other group's last main loop.
                T.mbarrier_wait_parity(turn[group], (own & 1) ^ (1 - group))
                multiply(roles, ring, group, wave * k_steps, k_steps, thread, partial(pass_turn, turn, group))
                tile_M, tile_N = raster.decode(tile)
                m0, n0 = roles.origin(tile_M, tile_N, rank)
                store_tile(roles, ring, group, C, m0, n0)
        T.tma_store_wait(0)

    @T.macro
    def allocate_turn(ring: Ring) -> tuple[Any]:
        turn = T.alloc_barrier([1] * GROUPS)
        return (turn,)

    return walk_program(roles, walk, consume, allocate_turn)
