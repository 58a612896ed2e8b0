"""The kernel of the power ceiling: tensor cores fed from shared memory that is already there, and nothing moved."""

from typing import Any, Final

ROWS: Final = 128  # two warp groups of one 64-row WGMMA each
COLUMNS: Final = 256
STAGES: Final = 4
ROW_BYTES: Final = 128  # of an operand's row in one stage: the widest swizzle
TILE_STEPS: Final = 128  # steps of one output tile, as of a product with K = 8,192


def block_flops(steps: int, itemsize: int) -> int:
    """Floating-point operations of one block in so many steps."""
    return 2 * ROWS * COLUMNS * (ROW_BYTES // itemsize) * steps


def program(dtype: str, itemsize: int, blocks: int, steps: int) -> Any:
    """Multiply the same four stages of A[128,depth] and B[256,depth] again and again, one block on each SM."""
    import tilelang.language as T

    depth = ROW_BYTES // itemsize

    @T.prim_func
    def main(
        A: T.Tensor((blocks, STAGES, ROWS, depth), dtype),
        B: T.Tensor((blocks, STAGES, COLUMNS, depth), dtype),
        C: T.Tensor((blocks, ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(blocks, threads=256) as block:
            left = T.alloc_shared((STAGES, ROWS, depth), dtype)
            right = T.alloc_shared((STAGES, COLUMNS, depth), dtype)
            total = T.alloc_fragment((ROWS, COLUMNS), "float32")
            for stage in T.unroll(STAGES):
                T.copy(A[block, stage, :, :], left[stage, :, :])
                T.copy(B[block, stage, :, :], right[stage, :, :])
            for step in T.serial(steps):
                T.gemm(
                    left[step % STAGES, :, :],
                    right[step % STAGES, :, :],
                    total,
                    transpose_B=True,
                    clear_accum=step % TILE_STEPS == 0,
                    policy=T.GemmWarpPolicy.FullRow,
                )
            T.copy(total, C[block, :, :])

    return main
