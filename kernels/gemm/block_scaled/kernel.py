"""8-bit GEMM with one scale for each block of its inputs: sums of 128 products are scaled and added in registers."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.gemm.operands import TensorCoreOperands
from kernels.gemm.raster import Raster, Walk
from kernels.gemm.ring import Ring, load_tiles, store_tile
from kernels.gemm.roles import Roles, program_of, run_roles
from kernels.hopper import GROUP, NUM_SMS
from kernels.operands import ceildiv, require

BLOCK = 128  # of K, and of N, that has one scale
BAND = 64  # rows of one WGMMA
CHUNK = 64  # columns that lie in one block, wherever a tile begins
WARPS = GROUP // 32
WARP = 32


@dataclass(frozen=True, kw_only=True)
class Bands(Roles):
    """Roles in which a consumer group's rows are bands of 64; each has its own sums, and partial sums beside them."""

    partials: int

    @property
    def rows(self) -> int:
        return BAND

    @property
    def bands(self) -> int:
        """Bands of one consumer group."""
        return self.block_M // (BAND * self.consumer_groups)

    @property
    def chunks(self) -> int:
        """How many parts of a row of the tile may have scales of their own."""
        return 1 if BLOCK % self.block_N == 0 else self.block_N // CHUNK

    @property
    def fragment_registers(self) -> int:
        return BAND * self.block_N // GROUP

    @property
    def accumulator_registers(self) -> int:
        return (self.bands + self.partials) * self.fragment_registers

    @property
    def shared_bytes(self) -> int:
        stores = (self.bands - 1) * self.consumer_groups * self.buffers * BAND * self.epilogue_N
        scales = self.num_stages * self.block_M * 4
        return super().shared_bytes + stores * self.operands.output_bytes + scales


@dataclass(frozen=True)
class ScaledRing(Ring):
    """A ring with the scales of A in its stages ``S``; each band has its own accumulators and store buffers.

    ``partials[group][turn]`` are the sums of one step. ``scales[group][turn][chunk]`` are the factors of their rows.
    """

    S: Any
    partials: list[list[Any]]
    scales: list[list[list[Any]]]


def block_scaled(
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    num_stages: int,
    consumer_groups: int = 2,
    chain: int = 1,
    cluster_M: int = 1,
    cluster_N: int = 1,
    group_M: int = 8,
    num_sms: int = NUM_SMS,
    epilogue_N: int = 64,
    epilogue_buffers: int = 1,
    registers: tuple[int, int] | None = None,
    eviction: tuple[str | None, str | None, str | None] = (None, None, None),
) -> Program:
    """C[M,N] = A[M,K] · W[N,K]ᵀ with S[K/128,M] for 1x128 blocks of A and T[N/128,K/128] for 128x128 blocks of W.

    Tensor cores cannot scale, and keep too few bits of a long 8-bit sum. So each step of 128 is a WGMMA batch with
    partial sums of its own. The consumers multiply them by both scales and add them to the accumulators, in float32
    (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3.2). While one group adds, the tensor cores work
    for another, or for the same group's next step in a ``chain``. TMA loads the scales of A with their stage. The one
    or two scales of W for a step are read from memory while the products are made.

    Levers:

    - the tile: accumulators and partial sums must fit in registers together. A consumer group holds 64 rows of up to
      192 columns, or two bands of 64 rows and 128 columns.
    - ``chain``: so many steps are each added under the products of the next, in two partial sums, which fit beside 64
      rows of 128 columns. 1: no step is.
    - ``consumer_groups``: 2 or 3.
    - the others as in ``warp_specialized``, always persistent.

    Limits: sm_90a; e4m3 inputs; M in multiples of 4, K and N of 16.

    Measured on an H200, time of torch / time of this at 8192x8192x8192: 1.024 (128x128, 5 stages, chain of 8); 1.001 to
    1.004 with a chain of 4, 0.92 with none; 0.98 for 256x128 and for 128x192; 0.90 for three groups on 192x128; less
    with clusters.
    """
    operands = TensorCoreOperands.of(problem, ("blockscaledlinear",))
    require(operands.input_bytes == 1, f"{problem}: the inputs are {operands.input}, not of 8 bits")
    require(operands.M % 4 == 0, f"M={operands.M}: TMA needs rows of S in multiples of 16 bytes")
    require(epilogue_buffers >= 1, "each band needs at least one of epilogue_buffers")
    require(block_N % CHUNK == 0, f"block_N={block_N} is not a multiple of {CHUNK} columns, which share a scale")
    partials = min(chain, 2)
    roles = Bands(
        operands=operands,
        block_M=block_M,
        block_N=block_N,
        block_K=BLOCK,
        num_stages=num_stages,
        consumer_groups=consumer_groups,
        cluster_M=cluster_M,
        cluster_N=cluster_N,
        epilogue_N=epilogue_N,
        epilogue_buffers=epilogue_buffers,
        wgmma_in_flight=partials - 1,
        registers=registers,
        eviction=eviction,
        partials=partials,
    )
    require(num_sms >= roles.cluster, f"num_sms={num_sms} does not hold a cluster of {roles.cluster} blocks")
    k_steps = roles.k_steps
    require(chain >= 1 and k_steps % chain == 0, f"chain={chain} does not divide the {k_steps} steps of K")
    require(chain == 1 or roles.bands == 1, f"chain={chain}: {roles.bands} bands of 64 rows take turns instead")
    raster = Raster(*roles.cluster_tiles, group_M)
    walk, blocks_N = Walk(raster, min(num_sms // roles.cluster, raster.total)), ceildiv(operands.N, BLOCK)

    @T.macro
    def load_scales(S: Any, ring: ScaledRing, m0: Any, k: Any, stage: Any) -> None:
        T.tma_copy(S[k : k + 1, m0 : m0 + block_M], ring.S[stage : stage + 1, :], barrier=ring.full[stage])

    @T.macro
    def multiply(ring: ScaledRing, weights: Any, n0: Any, group: int, band: int, turn: int, k: Any, step: Any) -> None:
        """Begin the partial sums of one step, and make its scales meanwhile."""
        row, stage = (group * roles.bands + band) * BAND, step % num_stages
        if band == 0:
            T.mbarrier_wait_parity(ring.full[stage], (step // num_stages) & 1)
        T.wgmma_gemm(
            ring.A[stage, row : row + BAND, :],
            ring.B[stage, :, :],
            ring.partials[group][turn],
            transpose_B=True,
            clear_accum=True,
        )
        for chunk, scales in list(enumerate(ring.scales[group][turn])):
            for i in T.Parallel(BAND):
                scales[i] = ring.S[stage, row + i] * weights[T.min((n0 + chunk * CHUNK) // BLOCK, blocks_N - 1), k]

    @T.macro
    def add(ring: ScaledRing, group: int, band: int, turn: int) -> None:
        """Scale partial sums that are ready and add them to the band's accumulators."""
        sums, of_step = ring.accumulators[group * roles.bands + band], ring.partials[group][turn]
        scales = ring.scales[group][turn]
        T.warpgroup_fence_operand(of_step, num_regs=roles.fragment_registers)
        for i, j in T.Parallel(BAND, block_N):
            sums[i, j] += of_step[i, j] * scale_of(scales, i, j)

    @T.macro
    def sum_up(ring: ScaledRing, weights: Any, n0: Any, group: int, first: Any, thread: Any) -> None:
        """One tile, from step ``first`` on: each batch is added when it has ended, in a chain under the next batch."""
        for link in T.serial(k_steps // chain):
            k = link * chain
            for band in list(range(roles.bands)):
                multiply(ring, weights, n0, group, band, 0, k, first + k)
                for each in list(range(chain)):
                    if each < chain - 1:
                        multiply(ring, weights, n0, group, band, (each + 1) % 2, k + each + 1, first + k + each + 1)
                        T.wait_wgmma(1)
                    else:  # ptxas lets no batch with partial sums of its own run on into the next turn of a loop
                        T.wait_wgmma(0)
                    if band == roles.bands - 1:
                        free(roles, ring, first + k + each, thread)
                    add(ring, group, band, each % 2)

    @T.macro
    def consume(C: Any, weights: Any, ring: ScaledRing, cluster: Any, rank: Any, thread: Any, group: int) -> None:
        for wave in T.serial(walk.waves):
            tile = walk.tile(wave, cluster)
            if tile < raster.total:
                tile_M, tile_N = raster.decode(tile)
                m0, n0 = roles.origin(tile_M, tile_N, rank)
                bands = list(range(group * roles.bands, (group + 1) * roles.bands))
                for band in bands:
                    T.clear(ring.accumulators[band])
                sum_up(ring, weights, n0, group, wave * k_steps, thread)
                for band in bands:
                    store_tile(roles, ring, band, C, m0 + band * BAND, n0)
        T.tma_store_wait(0)

    @T.prim_func
    def main(
        A: T.Tensor(operands.A_shape, operands.input),
        B: T.Tensor(operands.B_shape, operands.input),
        S: T.Tensor((k_steps, operands.M), "float32"),
        weights: T.Tensor((blocks_N, k_steps), "float32"),
        C: T.Tensor(operands.C_shape, operands.output),
    ):
        with roles.launch(walk.clusters) as block:
            ring = allocate(roles)
            cluster, rank = block // roles.cluster, block % roles.cluster
            thread = T.get_thread_binding()
            run_roles(
                roles,
                thread,
                partial(load_tiles, roles, ring, walk, A, B, cluster, rank, partial(load_scales, S, ring)),
                partial(consume, C, weights, ring, cluster, rank, thread),
            )

    return program_of(main)


@T.macro
def allocate(roles: Bands) -> ScaledRing:
    operands, groups = roles.operands, range(roles.consumer_groups)
    bands, turns = range(roles.consumer_groups * roles.bands), range(roles.partials)
    # Threads read the scales too, so each warp says when it has read them.
    freed_by = [WARPS * roles.consumer_groups * roles.cluster] * roles.num_stages
    A_stages = T.alloc_shared((roles.num_stages, roles.block_M, roles.block_K), operands.input)
    B_stages = T.alloc_shared((roles.num_stages, roles.block_N, roles.block_K), operands.input)
    S_stages = T.alloc_shared((roles.num_stages, roles.block_M), "float32")
    store_shape = (BAND, roles.epilogue_N)
    stores = [[T.alloc_shared(store_shape, operands.output) for _ in range(roles.buffers)] for _ in bands]
    accumulators = [T.alloc_fragment((BAND, roles.block_N), operands.accumulator) for _ in bands]
    partials = [[T.alloc_fragment((BAND, roles.block_N), operands.accumulator) for _ in turns] for _ in groups]
    scales = [[[T.alloc_fragment((BAND,), "float32") for _ in range(roles.chunks)] for _ in turns] for _ in groups]
    full = T.alloc_barrier([1] * roles.num_stages)
    empty = T.alloc_cluster_barrier(freed_by) if roles.cluster > 1 else T.alloc_barrier(freed_by)
    return ScaledRing(A_stages, B_stages, full, empty, accumulators, stores, S_stages, partials, scales)


def scale_of(scales: list[Any], i: Any, j: Any) -> Any:
    """The factor of row ``i`` and column ``j`` of partial sums."""
    scale = scales[-1][i]
    for chunk in reversed(range(len(scales) - 1)):
        scale = T.if_then_else(j < (chunk + 1) * CHUNK, scales[chunk][i], scale)
    return scale


@T.macro
def free(roles: Bands, ring: ScaledRing, step: Any, thread: Any) -> None:
    """Each warp tells every block of the cluster that the step's stage may be filled again."""
    stage = step % roles.num_stages
    if roles.cluster == 1:
        if T.shuffle_elect(WARP):
            T.mbarrier_arrive(ring.empty[stage])
    else:
        if thread % WARP < roles.cluster:
            T.mbarrier_arrive(ring.empty[stage], thread % WARP)
