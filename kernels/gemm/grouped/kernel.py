"""Grouped GEMM: blocks walk the tiles of one expert after another and find them by the ends of the experts' rows."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.gemm.operands import TensorCoreOperands
from kernels.gemm.ring import NAMED_BARRIER, Ring, allocate, free_stage, load_stage, multiply, store_tile
from kernels.gemm.roles import Roles, program_of, run_roles
from kernels.hopper import GROUP, NUM_SMS
from kernels.operands import ceildiv, require

GROUPS = 2
# Of a cursor: an expert, where its rows start and end, the tile rows before it; a tile's first row and column of tiles.
EXPERT, START, END, BEFORE, ROW, COLUMN, SLOTS = range(7)


@dataclass(frozen=True)
class GroupedOperands(TensorCoreOperands):
    """C[M, N] = A[M, K] · B[E, N, K]ᵀ, B of the expert to which a row belongs."""

    experts: int

    @classmethod
    def of_experts(cls, problem: Problem) -> Self:
        require(problem.operator == "groupedlinear", f"{problem}: operator '{problem.operator}' is not groupedlinear")
        require(problem.input in ("bfloat16", "float16"), f"{problem}: {problem.input} inputs are not supported")
        M, N, K, experts = problem.dims
        return cls(M, N, K, problem.input, problem.accumulator, problem.output, True, False, experts)

    def B_region(self, B: Any, n0: Any, k0: Any, block_N: int, block_K: int) -> Any:
        """``n0`` is an expert and a column."""
        expert, column = n0
        return B[expert, column : column + block_N, k0 : k0 + block_K]


@dataclass(frozen=True)
class ExpertTiles:
    """The tiles of all experts in a row; inside an expert those of a column of tiles come one after another."""

    roles: Roles
    experts: int
    blocks: int
    rows_first: bool

    @property
    def columns(self) -> int:
        return ceildiv(self.roles.operands.N, self.roles.block_N)

    @property
    def waves(self) -> int:
        """So many at most: each expert may have one tile row that is not full."""
        operands, block_M = self.roles.operands, self.roles.block_M
        tile_rows = min(operands.M, operands.M // block_M + self.experts)
        return ceildiv(tile_rows * self.columns, self.blocks)

    def heights(self, cursor: Any) -> Any:
        """Tile rows of the cursor's expert."""
        return T.ceildiv(cursor[END] - cursor[START], self.roles.block_M)


@T.macro
def begin(cursor: Any, ends: Any) -> None:
    cursor[EXPERT] = 0
    cursor[START] = 0
    cursor[END] = ends[0]
    cursor[BEFORE] = 0


@T.macro
def seek(tiles: ExpertTiles, cursor: Any, ends: Any, tile: Any) -> None:
    """Go on to a tile and its expert; past the last tile EXPERT is the number of experts."""
    while (cursor[EXPERT] < tiles.experts) and (tile >= (cursor[BEFORE] + tiles.heights(cursor)) * tiles.columns):
        cursor[BEFORE] += tiles.heights(cursor)
        cursor[EXPERT] += 1
        cursor[START] = cursor[END]
        if cursor[EXPERT] < tiles.experts:
            cursor[END] = ends[cursor[EXPERT]]
    if cursor[EXPERT] < tiles.experts:
        along = T.alloc_var("int32")
        along = tiles.heights(cursor) if tiles.rows_first else tiles.columns
        own = T.alloc_var("int32")
        own = tile - cursor[BEFORE] * tiles.columns
        across = T.alloc_var("int32")
        across = T.truncdiv(own, along)
        own = own - across * along
        cursor[ROW] = cursor[START] + (own if tiles.rows_first else across) * tiles.roles.block_M
        cursor[COLUMN] = across if tiles.rows_first else own


@T.macro
def skip(roles: Roles, ring: Ring, first: Any, thread: Any) -> None:
    """Free the stages of a tile unread."""
    for k in T.serial(roles.k_steps):
        stage = (first + k) % roles.num_stages
        T.mbarrier_wait_parity(ring.full[stage], ((first + k) // roles.num_stages) & 1)
        free_stage(roles, ring, stage, thread)


@T.macro
def store_rows(roles: Roles, ring: Ring, group: int, C: Any, m0: Any, n0: Any, end: Any) -> None:
    """Store the rows of a tile before ``end``: through shared memory, in lines of 16 bytes a thread."""
    for column in list(range(roles.block_N // roles.epilogue_N)):
        c0, buffer = column * roles.epilogue_N, ring.stores[group][column % roles.buffers]
        T.tma_store_wait(0)  # this buffer's last store has read it
        T.sync_threads(NAMED_BARRIER + group, GROUP)
        T.copy(ring.accumulators[group][:, c0 : c0 + roles.epilogue_N], buffer)
        T.sync_threads(NAMED_BARRIER + group, GROUP)
        for i, j in T.Parallel(roles.rows, roles.epilogue_N):
            if m0 + i < end:
                C[m0 + i, n0 + c0 + j] = buffer[i, j]


@T.macro
def pass_turn(turn: Any, group: int) -> None:
    if T.shuffle_elect(GROUP):
        T.mbarrier_arrive(turn[1 - group])


def grouped(
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    block_K: int,
    num_stages: int,
    turns: bool = False,
    rows_first: bool = True,
    skip_idle: bool = False,
    num_sms: int = NUM_SMS,
    wgmma_in_flight: int = 1,
    epilogue: str = "tma",
    epilogue_N: int = 64,
    epilogue_buffers: int = 2,
    dependent_launch: bool = False,
    registers: tuple[int, int] | None = None,
    eviction: tuple[str | None, str | None, str | None] = (None, None, None),
) -> Program:
    """C[M,N] = X[M,K] · W[E,N,K]ᵀ, with W of a row's expert, by one producer warp and two consumer groups.

    ``num_sms`` blocks walk the tiles of all experts. A tile belongs to one expert: its rows begin where the expert's
    do, and the last ones may belong to the next expert. These are multiplied, but not stored. The sizes are known to
    the device alone, so each role keeps a cursor: the expert that its tile belongs to. Every role of every block walks
    the same way, thus none has to tell another.

    Levers:

    - the tile, ``num_stages``, ``wgmma_in_flight``, ``dependent_launch``, ``registers``, ``eviction``: as in
      ``warp_specialized``.
    - ``turns``: the consumer groups take the tiles in turns, as in ``ping_pong``; else they share each.
    - ``rows_first``: inside an expert the rows of tiles run fastest, which share the weights; else the columns do.
    - ``skip_idle``: a consumer group without rows of the expert multiplies nothing.
    - ``epilogue``: "tma" stores full tiles by TMA and others through shared memory; "direct" stores from registers.

    Limits: sm_90a; bf16 and fp16; row pitches in multiples of 16 bytes.
    """
    require(epilogue in ("tma", "direct"), f"epilogue='{epilogue}' is not 'tma' or 'direct'")
    require(epilogue == "direct" or epilogue_buffers >= 1, "epilogue 'tma' needs at least one of epilogue_buffers")
    require(not (turns and skip_idle), "skip_idle is for groups that share a tile; with turns each has all of its rows")
    operands = GroupedOperands.of_experts(problem)
    roles = Roles(
        operands=operands,
        block_M=block_M,
        block_N=block_N,
        block_K=block_K,
        num_stages=num_stages,
        consumer_groups=GROUPS,
        epilogue_N=epilogue_N,
        epilogue_buffers=epilogue_buffers if epilogue == "tma" else 0,
        wgmma_in_flight=wgmma_in_flight,
        turns=turns,
        dependent_launch=dependent_launch,
        registers=registers,
        eviction=eviction,
    )
    tiles, k_steps = ExpertTiles(roles, operands.experts, num_sms, rows_first), roles.k_steps

    @T.macro
    def produce(A: Any, B: Any, ends: Any, ring: Ring, cursor: Any, block: Any) -> None:
        begin(cursor, ends)
        for wave in T.serial(tiles.waves):
            tile = wave * num_sms + block
            seek(tiles, cursor, ends, tile)
            if cursor[EXPERT] < operands.experts:
                at = (cursor[EXPERT], cursor[COLUMN] * block_N)
                for k in T.serial(k_steps):
                    load_stage(roles, ring, A, B, cursor[ROW], at, k * block_K, wave * k_steps + k)

    @T.macro
    def store(C: Any, ring: Ring, group: int, m0: Any, n0: Any, end: Any) -> None:
        if epilogue == "direct":
            for i, j in T.Parallel(roles.rows, block_N):
                if m0 + i < end:
                    C[m0 + i, n0 + j] = ring.accumulators[group][i, j]
        else:
            if m0 + roles.rows <= end:
                store_tile(roles, ring, group, C, m0, n0)
            else:
                if m0 < end:
                    store_rows(roles, ring, group, C, m0, n0, end)

    @T.macro
    def share(C: Any, ends: Any, ring: Ring, cursor: Any, block: Any, thread: Any, group: int) -> None:
        """Both groups take half of the rows of each tile."""
        for wave in T.serial(tiles.waves):
            tile = wave * num_sms + block
            seek(tiles, cursor, ends, tile)
            if cursor[EXPERT] < operands.experts:
                if skip_idle:
                    if cursor[ROW] + roles.first_row(group) < cursor[END]:
                        multiply(roles, ring, group, wave * k_steps, k_steps, thread)
                    else:
                        skip(roles, ring, wave * k_steps, thread)
                else:
                    multiply(roles, ring, group, wave * k_steps, k_steps, thread)
                store(C, ring, group, cursor[ROW] + roles.first_row(group), cursor[COLUMN] * block_N, cursor[END])

    @T.macro
    def alternate(C: Any, ends: Any, ring: Ring, turn: Any, cursor: Any, block: Any, thread: Any, group: int) -> None:
        """A group takes every second tile, and multiplies when the other has seen all of its stages arrive."""
        for own in T.serial(ceildiv(tiles.waves - group, GROUPS)):
            wave = own * GROUPS + group
            tile = wave * num_sms + block
            seek(tiles, cursor, ends, tile)
            if cursor[EXPERT] < operands.experts:
                T.mbarrier_wait_parity(turn[group], (own & 1) ^ (1 - group))
                multiply(roles, ring, group, wave * k_steps, k_steps, thread, partial(pass_turn, turn, group))
                store(C, ring, group, cursor[ROW], cursor[COLUMN] * block_N, cursor[END])

    @T.macro
    def consume(C: Any, ends: Any, ring: Ring, turn: Any, cursor: Any, block: Any, thread: Any, group: int) -> None:
        begin(cursor, ends)
        if turns:
            alternate(C, ends, ring, turn, cursor, block, thread, group)
        else:
            share(C, ends, ring, cursor, block, thread, group)
        if epilogue == "tma":
            T.tma_store_wait(0)

    @T.prim_func
    def main(
        A: T.Tensor(operands.A_shape, operands.input),
        B: T.Tensor((operands.experts, operands.N, operands.K), operands.input),
        ends: T.Tensor((operands.experts,), "int32"),
        C: T.Tensor(operands.C_shape, operands.output),
    ):
        with roles.launch(num_sms) as block:
            ring = allocate(roles)
            turn = T.alloc_barrier([1] * GROUPS)
            cursor = T.alloc_local((SLOTS,), "int32")
            thread = T.get_thread_binding()
            run_roles(
                roles,
                thread,
                partial(produce, A, B, ends, ring, cursor, block),
                partial(consume, C, ends, ring, turn, cursor, block, thread),
            )

    return program_of(main)
