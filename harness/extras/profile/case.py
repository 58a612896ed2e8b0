"""A profiled kernel as advice looks at it: its figures, its pinned configuration, and what would still fit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.extras.profile.bottleneck import Bottleneck
from harness.extras.profile.figures import Figures
from harness.judge.facts.architectures import WARP_GROUP
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import DTYPE_BYTES, Problem

SPARE_REGISTERS: Final = 32  # a thread needs them beside its accumulators: addresses, counters, descriptors


@dataclass(frozen=True)
class Case:
    """``config`` holds the literals of the iteration's CONFIG."""

    figures: Figures
    verdict: Bottleneck
    problem: Problem
    gpu: Gpu
    config: Mapping[str, object] = field(default_factory=dict)

    def number(self, lever: str) -> int | None:
        value = self.config.get(lever)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def tile(self) -> tuple[int, int, int] | None:
        """block_M, block_N, block_K, where CONFIG has all three."""
        rows, columns, depth = (self.number(f"block_{each}") for each in "MNK")
        return None if rows is None or columns is None or depth is None else (rows, columns, depth)

    @property
    def dims(self) -> tuple[int, int, int] | None:
        dims = self.problem.dims
        return (dims[0], dims[1], dims[2]) if len(dims) == 3 else None

    @property
    def computing_threads(self) -> int | None:
        """Threads that hold accumulators."""
        groups, threads = self.number("consumer_groups"), self.number("threads")
        return groups * WARP_GROUP if groups is not None else threads

    def stage_bytes(self, tile: tuple[int, int, int]) -> int:
        """Shared memory of one stage: a tile of each operand."""
        rows, columns, depth = tile
        return (rows + columns) * depth * DTYPE_BYTES[self.problem.input]

    def free_bytes(self) -> float | None:
        """Shared memory that a block could still have."""
        used, limit = self.figures.shared_bytes, self.figures.get("shared_limit_bytes")
        return None if used is None or limit is None else limit - used

    def shared_after(self, more_bytes: float) -> str:
        """What shared memory would be with so much more, in words."""
        used, limit = self.figures.shared_bytes, self.figures.get("shared_limit_bytes")
        if used is None or limit is None:
            return "shared memory was not counted"
        return f"{used + more_bytes:,.0f} of {limit:,.0f} bytes of shared memory"

    def holds(self, more_bytes: float) -> bool:
        free = self.free_bytes()
        return free is not None and more_bytes <= free

    def accumulators(self, tile: tuple[int, int, int], threads: int | None = None) -> int | None:
        """Registers of a computing thread that hold accumulators."""
        threads = threads or self.computing_threads
        return None if not threads else tile[0] * tile[1] // threads

    def holds_accumulators(self, tile: tuple[int, int, int], threads: int | None = None) -> bool:
        count, limit = self.accumulators(tile, threads), self.figures.get("registers_limit")
        return count is not None and limit is not None and count + SPARE_REGISTERS <= limit

    def registers_after(self, tile: tuple[int, int, int], threads: int | None = None) -> str:
        limit = self.figures.get("registers_limit")
        return f"{self.accumulators(tile, threads)} of {limit or 255:.0f} registers as accumulators"

    def tiles(self, tile: tuple[int, int, int]) -> int:
        assert self.dims is not None
        return math.ceil(self.dims[0] / tile[0]) * math.ceil(self.dims[1] / tile[1])

    def wave_fill(self, tile: tuple[int, int, int]) -> float:
        """The share of all SMs' turns that hold a tile, at one tile an SM and turn."""
        sms = int(self.figures.get("sms") or self.gpu.sms or 1)
        tiles = self.tiles(tile)
        return tiles / (math.ceil(tiles / sms) * sms)
