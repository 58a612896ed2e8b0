"""The tile of the ceiling's kernel, and the work of one block."""

from typing import Final

ROWS: Final = 128  # two warp groups of one 64-row WGMMA each
COLUMNS: Final = 256
STAGES: Final = 4
ROW_BYTES: Final = 128  # of an operand's row in one stage: the widest swizzle
TILE_STEPS: Final = 128  # steps of one output tile, as of a product with K = 8,192


def block_flops(steps: int, itemsize: int) -> int:
    """Floating-point operations of one block in so many steps."""
    return 2 * ROWS * COLUMNS * (ROW_BYTES // itemsize) * steps
