"""The rows of a latent cache, and what both kernels make of them: two groups, each with a half of the output."""

from dataclasses import dataclass
from math import e, log2, sqrt
from typing import Any, Final

from harness.iteration import Problem
from kernels.operands import require
from kernels.paged_decode.kernel import BARRIER, ROWS

GROUPS: Final = 2
MEETING: Final = BARRIER + GROUPS  # the named barrier of both groups
ROTARY: Final = 64


@dataclass(frozen=True, kw_only=True)
class LatentRows:
    """A problem's sizes. Raises ValueError for what no kernel takes."""

    sequences: int
    tiles: int  # of heads: each reads the cache once
    depth: int  # of a value
    rotary: int  # what a key has beyond the value
    pages: int  # of a sequence
    page: int  # tokens of a page
    dtype: str

    shared_heads = ROWS
    row_cost = 0
    warps_look_up = False

    @staticmethod
    def sizes(problem: Problem) -> dict[str, Any]:
        """The fields of a problem."""
        require(problem.operator == "mladecode", f"{problem}: operator '{problem.operator}' is not mladecode")
        sequences, heads, depth, rotary, pages, page = problem.dims
        require(heads % ROWS == 0, f"{heads} heads are no multiple of {ROWS}, the rows of a tile")
        return {
            "sequences": sequences,
            "tiles": heads // ROWS,
            "depth": depth,
            "rotary": rotary,
            "pages": pages,
            "page": page,
            "dtype": problem.input,
        }

    def __post_init__(self) -> None:
        require(self.dtype in ("float16", "bfloat16"), f"{self.dtype} inputs are not supported, only 16-bit ones")
        require(
            self.depth in (256, 512) and self.rotary == ROTARY,
            f"rows of {self.depth} and {self.rotary} are not of 256 or 512 and {ROTARY}",
        )

    @property
    def row_bytes(self) -> int:
        return 2 * (self.depth + self.rotary)

    @property
    def width(self) -> int:
        """Columns of the output that a group has."""
        return self.depth // GROUPS

    @property
    def to_log2(self) -> float:
        """The factor from q · k to an exponent of 2."""
        return log2(e) / sqrt(self.depth + self.rotary)
