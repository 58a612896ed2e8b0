"""GEMM in which a block keeps its rows of A in shared memory and walks along N: for a K so short that they fit."""

from functools import partial
from typing import Any

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.gemm.operands import TensorCoreOperands
from kernels.gemm.ping_pong.kernel import GROUPS, pass_turn
from kernels.gemm.ring import Ring, multiply, store_tile
from kernels.gemm.roles import Roles, program_of, run_roles
from kernels.hopper import require_shared
from kernels.operands import ceildiv, require


def stationary(
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    block_K: int,
    num_stages: int,
    lag: int = 0,
    wgmma_in_flight: int = 1,
    epilogue_N: int = 64,
    epilogue_buffers: int = 1,
    registers: tuple[int, int] | None = None,
    eviction: tuple[str | None, str | None, str | None] = (None, None, None),
) -> Program:
    """One block a row of tiles: it loads its rows of A once, and then only B, in turns as ``ping_pong``.

    Per flop a tile of 128x192 takes 40% less from L2 than in ``ping_pong``. Beside A there is room for three stages of
    B and one narrow store buffer a group.

    Levers: the tile; ``num_stages`` of B in the ring; ``lag``, the tile columns by which each block begins further
    along N than the block before; ``wgmma_in_flight``, ``epilogue_N``, ``epilogue_buffers``, ``registers`` and
    ``eviction`` as in ``ping_pong``. With a ``lag`` not all blocks read the same part of B at once.

    Limits: those of ``ping_pong``. All of K for block_M rows must fit beside the ring: K is at most 512 in 16 bits
    with 128 rows. Rows of tiles should be a little fewer than the SMs, or than a multiple of them.

    Measured on an H200, time of torch / time of this: 16384x16384x512 in fp16 1.045 (128x192, 3 stages; 1.014 with
    lag=1), where ``ping_pong`` reaches 1.175.
    """
    operands = TensorCoreOperands.of(problem)
    require(block_M in (64, 128), f"block_M={block_M}: a consumer group takes 64 or 128 rows, one or two WGMMAs high")
    require(epilogue_buffers >= 1, "each group needs at least one of epilogue_buffers")
    require(lag >= 0, f"lag={lag} is negative")
    roles = Roles(
        operands=operands,
        block_M=block_M,
        block_N=block_N,
        block_K=block_K,
        num_stages=num_stages,
        consumer_groups=GROUPS,
        epilogue_N=epilogue_N,
        epilogue_buffers=epilogue_buffers,
        wgmma_in_flight=wgmma_in_flight,
        turns=True,
        registers=registers,
        eviction=eviction,
    )
    rows, columns = roles.cluster_tiles
    k_steps = roles.k_steps
    # Where Roles counts a stage of A for each stage of B, all of K is kept.
    require_shared(roles.shared_bytes + (k_steps - num_stages) * block_M * block_K * operands.input_bytes)

    @T.macro
    def load(A: Any, B: Any, ring: Ring, kept: Any, block: Any) -> None:
        """All of the block's A with the first tile's B, then B alone."""
        for own in T.serial(columns):
            n0 = (own + block * lag) % columns * block_N
            for k in T.serial(k_steps):
                if own == 0:
                    T.tma_copy(
                        A[block * block_M : (block + 1) * block_M, k * block_K : (k + 1) * block_K],
                        ring.A[k, :, :],
                        barrier=kept[k],
                        eviction_policy=roles.eviction[0],
                    )
                    if T.shuffle_elect(32):
                        T.mbarrier_arrive(kept[k])
                step = own * k_steps + k
                stage = step % num_stages
                T.mbarrier_wait_parity(ring.empty[stage], ((step // num_stages) & 1) ^ 1)
                T.tma_copy(
                    operands.B_region(B, n0, k * block_K, block_N, block_K),
                    ring.B[stage, :, :],
                    barrier=ring.full[stage],
                    eviction_policy=roles.eviction[1],
                )
                if T.shuffle_elect(32):
                    T.mbarrier_arrive(ring.full[stage])

    @T.macro
    def await_A(kept: Any, k: Any) -> None:
        T.mbarrier_wait_parity(kept[k], 0)

    @T.macro
    def consume(C: Any, ring: Ring, kept: Any, turn: Any, block: Any, thread: Any, group: int) -> None:
        for pair in T.serial(ceildiv(columns - group, GROUPS)):
            own = pair * GROUPS + group
            # Group 0 begins; each later turn comes from the other group's last main loop.
            T.mbarrier_wait_parity(turn[group], (pair & 1) ^ (1 - group))
            multiply(
                roles,
                ring,
                group,
                own * k_steps,
                k_steps,
                thread,
                partial(pass_turn, turn, group),
                await_A=partial(await_A, kept),
            )
            store_tile(roles, ring, group, C, block * block_M, (own + block * lag) % columns * block_N)
        T.tma_store_wait(0)

    @T.prim_func
    def main(
        A: T.Tensor(operands.A_shape, operands.input),
        B: T.Tensor(operands.B_shape, operands.input),
        C: T.Tensor(operands.C_shape, operands.output),
    ):
        with roles.launch(rows) as block:
            rows_of_A = T.alloc_shared((k_steps, block_M, block_K), operands.input)
            stages_of_B = T.alloc_shared((num_stages, *operands.B_tile(block_N, block_K)), operands.input)
            stores = [
                [T.alloc_shared((roles.rows, epilogue_N), operands.output) for _ in range(roles.buffers)]
                for _ in range(GROUPS)
            ]
            sums = [T.alloc_fragment((roles.rows, block_N), operands.accumulator) for _ in range(GROUPS)]
            kept = T.alloc_barrier([1] * k_steps)
            full = T.alloc_barrier([1] * num_stages)
            empty = T.alloc_barrier([1] * num_stages)
            turn = T.alloc_barrier([1] * GROUPS)
            ring = Ring(rows_of_A, stages_of_B, full, empty, sums, stores)
            thread = T.get_thread_binding()
            run_roles(
                roles,
                thread,
                partial(load, A, B, ring, kept, block),
                partial(consume, C, ring, kept, turn, block, thread),
            )

    return program_of(main)
