"""Stream-K GEMM: whole waves of tiles as usual, the last partial wave cut along K so that every SM has work."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program, Workspace
from kernels.gemm.operands import TensorCoreOperands
from kernels.gemm.raster import Raster
from kernels.gemm.ring import NAMED_BARRIER, Ring, allocate, load_stage, multiply, store_tile
from kernels.gemm.roles import Roles, program_of, run_roles
from kernels.hopper import GROUP, NUM_SMS
from kernels.operands import ceildiv, require

FLAG_FUNCTIONS = r"""
static __device__ __forceinline__ void flag_set(int *flag, int value) {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
static __device__ __forceinline__ void flag_wait(int *flag) {
  int value;
  do {
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  } while (value == 0);
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
"""


@dataclass(frozen=True)
class Split:
    """Which tiles are cut along K, and which cluster does which part of them.

    The first ``split_tiles`` tiles of the raster form one run of k steps, cut evenly over the clusters. The others,
    a whole number of waves, are done a tile at a time. The last full wave joins the run. So a share is at least one
    tile's worth of steps, and no tile is cut into more than a few segments.
    """

    clusters: int
    whole_waves: int
    split_tiles: int
    k_steps: int

    @classmethod
    def of(cls, tiles: int, clusters: int, k_steps: int) -> "Split":
        whole_waves, rest = divmod(tiles, clusters)
        if rest == 0:
            return cls(clusters, whole_waves, 0, k_steps)
        if whole_waves == 0:  # every cluster launched must have a step: the owner of a tile waits for all that follow
            return cls(min(clusters, rest * k_steps), 0, rest, k_steps)
        return cls(clusters, whole_waves - 1, rest + clusters, k_steps)

    @property
    def run(self) -> int:
        """Number of k steps in the run."""
        return self.split_tiles * self.k_steps

    @property
    def segments(self) -> int:
        """The most tiles that one cluster's share of the run can touch."""
        return (ceildiv(self.run, self.clusters) - 1) // self.k_steps + 2 if self.run else 0

    @property
    def peers(self) -> int:
        """The most clusters after a tile's owner that can add to it."""
        return (self.k_steps - 1) // max(self.run // self.clusters, 1) + 1 if self.run else 0

    def start(self, cluster: Any) -> Any:
        """Where in the run the share of a cluster starts."""
        return (cluster * self.run) // self.clusters

    def peer(self, cluster: Any, distance: Any) -> Any:
        """The cluster that may have a later part of the tile that ``cluster`` owns."""
        return cluster + distance

    def adds(self, peer: Any, tile: Any) -> Any:
        """Whether a peer has a part of a tile."""
        return self.start(peer) < (tile + 1) * self.k_steps

    def unit(self, index: Any, cluster: Any) -> tuple[Any, Any, Any]:
        """(tile, first k step, number of k steps) of a cluster's index-th unit of work; steps <= 0: none.

        A cluster does its share of the run first, so that the partial sums lie ready when a tile's owner asks.
        """
        if self.run == 0:
            return index * self.clusters + cluster, 0, self.k_steps
        begin, end = self.start(cluster), self.start(cluster + 1)
        tile = begin // self.k_steps + index
        first = T.if_then_else(index == 0, begin % self.k_steps, 0)
        steps = T.min(self.k_steps, end - tile * self.k_steps) - first
        if self.whole_waves == 0:
            return tile, first, steps
        in_run = index < self.segments
        whole_tile = self.split_tiles + (index - self.segments) * self.clusters + cluster
        return (
            T.if_then_else(in_run, tile, whole_tile),
            T.if_then_else(in_run, first, 0),
            T.if_then_else(in_run, steps, self.k_steps),
        )


@dataclass(frozen=True)
class TailSplit(Split):
    """Whole waves first; then the tiles of the last, partial wave alone, each cut into ``parts`` parts of K.

    The parts are equal, but for the last one where the steps of K do not divide.

    All clusters with the same part read the same steps of K at the same time, so they share them in L2.
    """

    parts: int

    @classmethod
    def of_parts(cls, tiles: int, clusters: int, k_steps: int, parts: int) -> "TailSplit":
        whole_waves, rest = divmod(tiles, clusters)
        require(
            0 < rest * parts <= clusters and ceildiv(k_steps, parts) * (parts - 1) < k_steps,
            f"tail_parts={parts}: {rest} tiles remain for {clusters} clusters, with {k_steps} steps of K",
        )
        return cls(clusters if whole_waves else rest * parts, whole_waves, rest, k_steps, parts)

    @property
    def segments(self) -> int:
        return 1

    @property
    def peers(self) -> int:
        return self.parts - 1

    def peer(self, cluster: Any, distance: Any) -> Any:
        return cluster + distance * self.split_tiles

    def adds(self, peer: Any, tile: Any) -> Any:
        return True

    def unit(self, index: Any, cluster: Any) -> tuple[Any, Any, Any]:
        whole, share = index < self.whole_waves, ceildiv(self.k_steps, self.parts)
        part = cluster // self.split_tiles
        steps = T.min(share, self.k_steps - part * share) if self.k_steps % self.parts else share
        return (
            index * self.clusters + T.if_then_else(whole, cluster, cluster % self.split_tiles),
            T.if_then_else(whole, 0, part * share),
            T.if_then_else(whole, self.k_steps, T.if_then_else(part < self.parts, steps, 0)),
        )


def stream_k(
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    block_K: int,
    num_stages: int,
    consumer_groups: int = 2,
    cluster_M: int = 2,
    group_M: int = 8,
    num_sms: int = NUM_SMS,
    wgmma_in_flight: int = 1,
    epilogue_N: int = 64,
    epilogue_buffers: int = 2,
    registers: tuple[int, int] | None = None,
    tail_parts: int = 0,
    eviction: tuple[str | None, str | None, str | None] = (None, None, None),
) -> Program:
    """``warp_specialized``, persistent, with the tiles of the last partial wave cut along K over all SMs.

    Where a cluster's share starts inside a tile, it leaves float32 partial sums in a workspace and raises a flag. The
    cluster with the tile's first k step adds them and stores the tile. The additions have a fixed order, so the
    result does not change from launch to launch.

    Levers: those of ``warp_specialized``; ``cluster_M`` (1 or 2). It pays when the last wave is nearly empty and K is
    large: 8192x8192x8192 with 128x256 tiles is 15.5 waves of 66 clusters. Where the tiles fit one wave, the exchange
    costs more than the idle SMs (2048x2048x2048: 0.72, 1024x1024x1024: 0.22). With ``tail_parts``
    whole waves come first, and only the tiles of the partial wave are cut, into so many parts. Parts with the
    same steps of K run at the same time, so they share them in L2. Their lengths differ by one step at most.

    Limits: those of ``warp_specialized``. Every block must be resident at once, so num_sms may not exceed the GPU's
    SMs. It needs a workspace of num_sms tiles in float32, and flags, zero at first, which every launch leaves zero.
    Launches on one workspace must not overlap.

    Measured on an H200, time of torch / time of this: 8192x8192x8192 1.024, linear 4096x14336x4096 0.996, both with
    128x256 tiles, 4 stages and cluster_M=2.
    """
    operands = TensorCoreOperands.of(problem)
    require(cluster_M in (1, 2), f"cluster_M={cluster_M} is not 1 or 2")
    require(epilogue_buffers >= 1, "stream_k needs at least one of epilogue_buffers")
    roles = Roles(
        operands=operands,
        block_M=block_M,
        block_N=block_N,
        block_K=block_K,
        num_stages=num_stages,
        consumer_groups=consumer_groups,
        cluster_M=cluster_M,
        epilogue_N=epilogue_N,
        epilogue_buffers=epilogue_buffers,
        wgmma_in_flight=wgmma_in_flight,
        registers=registers,
        eviction=eviction,
    )
    require(num_sms >= cluster_M, f"num_sms={num_sms} does not hold a cluster of {cluster_M} blocks")
    raster = Raster(*roles.cluster_tiles, group_M)
    clusters, k_steps, rows = num_sms // cluster_M, roles.k_steps, roles.rows
    split = (
        TailSplit.of_parts(raster.total, clusters, k_steps, tail_parts)
        if tail_parts
        else Split.of(raster.total, clusters, k_steps)
    )
    products = split.run * (split.clusters + split.peers)
    require(products < 2**31, f"{split.run} k steps over {split.clusters} clusters overflow 32-bit indices")
    blocks = split.clusters * cluster_M
    columns = 32 if roles.accumulator_registers <= 128 else 16  # added at once, in registers that are left
    partial_shape, flag_shape = (blocks, block_M, block_N), (blocks, consumer_groups)
    flag_dtype = "int32"

    @T.macro
    def produce(A: Any, B: Any, ring: Ring, cluster: Any, rank: Any) -> None:
        # alloc_var, since a plain name is inlined at every use, with all the divisions of unit() and decode().
        done = T.alloc_var("int32", init=0)
        tile = T.alloc_var("int32")
        first = T.alloc_var("int32")
        steps = T.alloc_var("int32")
        m0 = T.alloc_var("int32")
        n0 = T.alloc_var("int32")
        for index in T.serial(split.segments + split.whole_waves):
            unit = split.unit(index, cluster)
            tile = unit[0]
            first = unit[1]
            steps = unit[2]
            if steps > 0:
                origin = roles.origin(*raster.decode(tile), rank)
                m0 = origin[0]
                n0 = origin[1]
                for k in T.serial(steps):
                    load_stage(roles, ring, A, B, m0, n0, (first + k) * block_K, done + k)
                done = done + steps

    @T.macro
    def leave_partial(ring: Ring, partials: Any, flags: Any, block: Any, thread: Any, group: int) -> None:
        T.copy(ring.accumulators[group], partials[block, group * rows : (group + 1) * rows, 0:block_N])
        T.sync_threads(NAMED_BARRIER + group, GROUP)
        if thread % GROUP == 0:
            T.call_extern("handle", "flag_set", T.address_of(flags[block, group]), 1)

    @T.macro
    def add_partial(ring: Ring, partials: Any, flags: Any, block: Any, thread: Any, group: int) -> None:
        T.call_extern("handle", "flag_wait", T.address_of(flags[block, group]))
        for c0 in list(range(0, block_N, columns)):
            for i, j in T.Parallel(rows, columns):
                ring.accumulators[group][i, c0 + j] += partials[block, group * rows + i, c0 + j]
            # Also keeps the loads of the next columns from moving up, which costs registers.
            T.sync_threads(NAMED_BARRIER + group, GROUP)
        if thread % GROUP == 0:
            T.call_extern("handle", "flag_set", T.address_of(flags[block, group]), 0)

    @T.macro
    def consume(
        C: Any, partials: Any, flags: Any, ring: Ring, cluster: Any, rank: Any, thread: Any, group: int
    ) -> None:
        done = T.alloc_var("int32", init=0)
        tile = T.alloc_var("int32")
        first = T.alloc_var("int32")
        steps = T.alloc_var("int32")
        m0 = T.alloc_var("int32")
        n0 = T.alloc_var("int32")
        for index in T.serial(split.segments + split.whole_waves):
            unit = split.unit(index, cluster)
            tile = unit[0]
            first = unit[1]
            steps = unit[2]
            if steps > 0:
                multiply(roles, ring, group, done, steps, thread)
                done = done + steps
                origin = roles.origin(*raster.decode(tile), rank)
                m0 = origin[0] + group * rows
                n0 = origin[1]
                if split.run == 0:
                    store_tile(roles, ring, group, C, m0, n0)
                else:
                    if first > 0:  # the tile belongs to an earlier cluster
                        leave_partial(ring, partials, flags, cluster * cluster_M + rank, thread, group)
                    else:
                        if steps < k_steps:  # clusters after this one have the rest of the tile
                            for distance in T.serial(1, split.peers + 1):
                                peer = split.peer(cluster, distance)
                                if split.adds(peer, tile):
                                    add_partial(ring, partials, flags, peer * cluster_M + rank, thread, group)
                        store_tile(roles, ring, group, C, m0, n0)
        T.tma_store_wait(0)

    @T.prim_func
    def main(
        A: T.Tensor(operands.A_shape, operands.input),
        B: T.Tensor(operands.B_shape, operands.input),
        C: T.Tensor(operands.C_shape, operands.output),
        partials: T.Tensor(partial_shape, operands.accumulator),
        flags: T.Tensor(flag_shape, flag_dtype),
    ):
        with roles.launch(split.clusters, prelude=FLAG_FUNCTIONS) as block:
            ring = allocate(roles)
            cluster, rank = block // cluster_M, block % cluster_M
            thread = T.get_thread_binding()
            run_roles(
                roles,
                thread,
                partial(produce, A, B, ring, cluster, rank),
                partial(consume, C, partials, flags, ring, cluster, rank, thread),
            )

    workspaces = (Workspace(partial_shape, operands.accumulator), Workspace(flag_shape, flag_dtype))
    return program_of(main, workspaces)
