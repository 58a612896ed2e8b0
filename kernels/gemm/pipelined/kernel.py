"""GEMM as TileLang's own schedule makes it: T.Pipelined, T.gemm, one output tile per block."""

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.gemm.operands import TensorCoreOperands
from kernels.hopper import require_shared
from kernels.operands import require

POLICIES = {
    "square": T.GemmWarpPolicy.Square,
    "full_row": T.GemmWarpPolicy.FullRow,
    "full_col": T.GemmWarpPolicy.FullCol,
}


def pipelined(
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    block_K: int,
    num_stages: int,
    threads: int,
    policy: str = "square",
    panel: int = 8,
    order: str = "row",
    epilogue: str = "direct",
    registers: tuple[int, int] | None = None,
    min_blocks_per_sm: int = 0,
) -> Program:
    """The stock kernel: the compiler pipelines the copies and splits producer from consumer warps.

    Levers: the tile, ``num_stages`` and ``threads`` (128 per 64 rows is the usual measure); ``policy`` (how T.gemm
    lays its warps over the tile: "square", "full_row", "full_col"); ``panel`` and ``order`` (T.use_swizzle over the
    grid for L2, panel 0 for none); ``epilogue`` "direct" (registers to global memory) or "tma" (through shared memory
    and a TMA store); ``registers`` (producer, consumer) and ``min_blocks_per_sm``, which let two blocks share an SM so
    that one multiplies while the other stores.

    Limits: T.gemm drains its WGMMA in every k step, and the epilogue overlaps nothing of the own block, so small K
    suffers most. Ragged M, N and K are handled.

    Measured on an H200, time of torch / time of this: 0.88 to 0.97 for 2048 cubed and larger, 0.60 at K=512,
    0.34 at 1024 cubed.
    """
    operands = TensorCoreOperands.of(problem)
    M, N, K, transpose_B = operands.M, operands.N, operands.K, operands.transpose_B
    for name, size in (("block_M", block_M), ("block_N", block_N), ("block_K", block_K)):
        require(size > 0 and size % 16 == 0, f"{name}={size} is not a positive multiple of 16")
    require(threads in (128, 256, 384, 512), f"threads={threads} is not a whole number of warp groups up to 512")
    require(num_stages >= 1, f"num_stages={num_stages} is less than 1")
    require(policy in POLICIES, f"policy='{policy}' is not one of {', '.join(POLICIES)}")
    require(epilogue in ("direct", "tma"), f"epilogue='{epilogue}' is not 'direct' or 'tma'")
    require(
        block_M * block_N <= 224 * threads,
        f"{block_M} x {block_N} accumulators over {threads} threads do not fit in registers",
    )
    stages_bytes = num_stages * (block_M + block_N) * block_K * operands.input_bytes
    epilogue_bytes = block_M * block_N * operands.output_bytes if epilogue == "tma" else 0
    require_shared(max(stages_bytes, epilogue_bytes))  # the epilogue comes when the stages are empty, and reuses them
    B_tile = operands.B_tile(block_N, block_K)

    @T.prim_func
    def main(
        A: T.Tensor(operands.A_shape, operands.input),
        B: T.Tensor(operands.B_shape, operands.input),
        C: T.Tensor(operands.C_shape, operands.output),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), operands.input)
            B_shared = T.alloc_shared(B_tile, operands.input)
            C_local = T.alloc_fragment((block_M, block_N), operands.accumulator)
            if min_blocks_per_sm:
                T.annotate_min_blocks_per_sm(min_blocks_per_sm)
            if registers is not None:
                T.annotate_producer_reg_dealloc(registers[0])
                T.annotate_consumer_reg_alloc(registers[1])
            if panel:
                T.use_swizzle(panel, order=order)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if transpose_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transpose_B, policy=POLICIES[policy])
            if epilogue == "tma":
                C_shared = T.alloc_shared((block_M, block_N), operands.output)
                T.copy(C_local, C_shared)
                T.copy(C_shared, C[by * block_M, bx * block_N])
            else:
                T.copy(C_local, C[by * block_M, bx * block_N])

    return Program(main)
