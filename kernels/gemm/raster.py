"""The order in which blocks take the tiles of C, so that one wave of them shares operands in L2."""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from kernels.operands import ceildiv


@dataclass(frozen=True)
class Raster:
    """Tiles in groups of ``group_M`` tile rows; inside a group M runs fastest.

    A wave of w tiles then covers about group_M x (w / group_M) tiles of C. It reads that many rows of A and columns
    of B. A walk along N alone would read one row of A and all of B.
    """

    tiles_M: Any  # an int, or an expression in the rows that a launch has
    tiles_N: int
    group_M: int

    @property
    def total(self) -> Any:
        return self.tiles_M * self.tiles_N

    def decode(self, tile: Any) -> tuple[Any, Any]:
        """(tile row, tile column) of a linear tile index, as TileLang expressions."""
        counted = isinstance(self.tiles_M, int)
        group_M = max(1, min(self.group_M, self.tiles_M) if counted else self.group_M)
        if counted and group_M == self.tiles_M:
            return tile % self.tiles_M, tile // self.tiles_M
        group = tile // (group_M * self.tiles_N)
        within = tile % (group_M * self.tiles_N)
        if counted and self.tiles_M % group_M == 0:
            return group * group_M + within % group_M, within // group_M
        height = T.min(group_M, self.tiles_M - group * group_M)  # the last group is lower
        return group * group_M + within % height, within // height


@dataclass(frozen=True)
class Walk:
    """How ``clusters`` of blocks go through a raster together: each takes one tile a wave, in the raster's order."""

    raster: Raster
    clusters: int

    @property
    def waves(self) -> Any:
        return ceildiv(self.raster.total, self.clusters)

    def tile(self, wave: Any, cluster: Any) -> Any:
        """The linear index of a cluster's tile; none from ``raster.total`` on."""
        return wave * self.clusters + cluster
