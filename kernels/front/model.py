"""The front's model: how fast a candidate is beside the library, fitted to what a GPU measured.

Eight things of a product and a tile go in: K up to 4,096 and beyond, the number of waves, whether 128 divides the
rows, and the pitches. The others are how short the product is, how much better the library's tile would fill the SMs,
and how much that tile loads. There are two fits: one for where the library's tile is known, and one by the best of its
tiles. `python -m kernels.front.fit` makes the file again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import exp, log, sqrt
from operator import mul
from pathlib import Path
from typing import Any, Final

from harness.judge.facts.problem import DTYPE_BYTES, Problem
from kernels.front.candidates import CANDIDATES, Tile
from kernels.operands import ceildiv

FOLDER: Final = Path(__file__).parent / "models"
ALIGNED_BYTES: Final = 128  # a pitch with which every row of a tile is one whole line of the L2
ROWS_UNIT: Final = 128
LONG_K: Final = 4096  # beyond it the epilogue weighs nothing, and reuse in the L2 decides
SHORT_WORK: Final = 2e10  # M N K of some 50 µs; below it starts and ends of blocks weigh more
LOSS: Final = 0.99  # a ratio below it, beyond its interval
KNOWN, UNKNOWN = "known", "unknown"  # the library's tile
SPLIT: Final = "splitK"  # in the name of a library's kernel; its tile does not tell its waves
PITCH_CLASSES: Final = ("aligned", "unaligned")
# Predictions of smaller products err farther, and more seldom: starts, ends and the library's choices weigh more.
LARGE_ROWS: Final = 2048
LARGE_K: Final = 1024
MARGIN_CLASSES: Final = ("large", "small", "unaligned")
INTENSITY: Final = 90.0  # a b / (a + b) of a tile a x b that is bound by the tensor cores
INTENSITY_POWER: Final = 0.2

LibraryTile = tuple[int, int]  # columns and rows of C


@dataclass(frozen=True, slots=True)
class RatioLine:
    """The logarithm of a ratio as a sum of terms; ``error`` is its standard deviation where records are many."""

    coefficients: tuple[float, ...]
    error: float
    inverse: tuple[tuple[float, ...], ...]  # of the terms' normal matrix

    def at(self, terms: tuple[float, ...]) -> float:
        return sum(factor * term for factor, term in zip(self.coefficients, terms, strict=True))

    def error_at(self, terms: tuple[float, ...]) -> float:
        """It grows with the distance from the records."""
        rows = (sum(map(mul, row, terms)) for row in self.inverse)
        return self.error * sqrt(1 + max(0.0, sum(map(mul, rows, terms))))


@dataclass(frozen=True, slots=True)
class RatioEstimate:
    """The library's time over the candidate's: what is expected, and what is nearly always exceeded."""

    name: str
    ratio: float
    low: float


@dataclass(frozen=True, slots=True)
class RatioFit:
    """A margin is how many errors below the expectation a candidate must still be ahead."""

    lines: Mapping[str, RatioLine]  # by candidate and class of pitches, such as wide256/aligned
    margins: Mapping[str, float]  # by MARGIN_CLASSES


@dataclass(frozen=True)
class RatioModel:
    sms: int
    library_tiles: tuple[LibraryTile, ...]
    least: Mapping[str, float]  # of rows, K, and fill, as far down as was measured
    fits: Mapping[bool, RatioFit]  # by whether the library's tile is known

    def best(self, problem: Problem, library_tile: LibraryTile | None = None) -> RatioEstimate | None:
        """The candidate with the highest lower bound; None outside of what was measured."""
        rows, _, depth = problem.dims
        if rows < self.least["rows"] or depth < self.least["K"]:
            return None
        tiles = (library_tile,) if library_tile else self.library_tiles
        made = [self._estimate(name, problem, tiles, self.fits[library_tile is not None]) for name in CANDIDATES]
        return max(filter(None, made), key=lambda each: each.low, default=None)

    def _estimate(
        self, name: str, problem: Problem, tiles: tuple[LibraryTile, ...], fit: RatioFit
    ) -> RatioEstimate | None:
        line, tile = fit.lines.get(f"{name}/{pitch_class(problem)}"), CANDIDATES[name]
        if line is None or not tile.takes(problem) or fill(tile, problem, self.sms) < self.least["fill"]:
            return None
        at = terms(name, problem, self.sms, tiles)
        expected = line.at(at)
        return RatioEstimate(
            name, exp(expected), exp(expected - fit.margins[margin_class(problem)] * line.error_at(at))
        )


def pitch_class(problem: Problem) -> str:
    size = DTYPE_BYTES[problem.input]
    whole = all(shape[-1] * size % ALIGNED_BYTES == 0 for shape, _ in problem.tensors)
    return PITCH_CLASSES[not whole]


def margin_class(problem: Problem) -> str:
    """The class of products with about equal errors; unaligned pitches are one class of all sizes."""
    if pitch_class(problem) == "unaligned":
        return "unaligned"
    rows, _, depth = problem.dims
    return "large" if rows >= LARGE_ROWS and depth >= LARGE_K else "small"


def terms(name: str, problem: Problem, sms: int, library_tiles: tuple[LibraryTile, ...]) -> tuple[float, ...]:
    (M, N, K), candidate = problem.dims, CANDIDATES[name]
    tile = max(library_tiles, key=lambda each: library_fill(each, M, N, sms))
    gap = library_fill(tile, M, N, sms) / fill(candidate, problem, sms)
    short = min(0.0, log(M * N * K / SHORT_WORK))
    whole_rows = float(M % ROWS_UNIT == 0)
    depth, beyond = log(min(K, LONG_K) / LONG_K), log(max(K, LONG_K) / LONG_K)
    return (1.0, log(gap), log(weight(tile)), depth, beyond, whole_rows, 1 / waves(candidate, problem, sms), short)


def waves(tile: Tile, problem: Problem, sms: int) -> int:
    (M, N, _), (block_M, block_N) = problem.dims, tile.shape
    cluster = tile.levers.get("cluster_M", 1)
    clusters = ceildiv(ceildiv(M, block_M), cluster) * ceildiv(N, block_N)
    return ceildiv(clusters, sms // cluster)


def fill(tile: Tile, problem: Problem, sms: int) -> float:
    """Useful elements of C over those that the waves have room for."""
    (M, N, _), (block_M, block_N) = problem.dims, tile.shape
    return float(M * N / (waves(tile, problem, sms) * sms * block_M * block_N))


def library_fill(tile: LibraryTile, M: int, N: int, sms: int) -> float:
    """``fill`` of a library's tile; a small tile counts less, since it loads more."""
    columns, rows = tile
    taken = ceildiv(ceildiv(M, rows) * ceildiv(N, columns), sms) * sms * rows * columns
    return weight(tile) * M * N / taken


def weight(tile: LibraryTile) -> float:
    intensity = tile[0] * tile[1] / (tile[0] + tile[1]) / INTENSITY
    return float(min(1.0, intensity**INTENSITY_POWER))


@cache
def model(key: str | None) -> RatioModel | None:
    """The model of a GPU; None where nothing was measured."""
    path = FOLDER / f"{key}.json"
    return read(json.loads(path.read_text())) if key and path.is_file() else None


def read(said: Mapping[str, Any]) -> RatioModel:
    fits = {name == KNOWN: _fit(said["fits"][name]) for name in (KNOWN, UNKNOWN)}
    return RatioModel(said["sms"], tuple((a, b) for a, b in said["library_tiles"]), said["least"], fits)


def _fit(said: Mapping[str, Any]) -> RatioFit:
    lines = {
        name: RatioLine(tuple(line["coefficients"]), line["error"], tuple(map(tuple, line["inverse"])))
        for name, line in said["lines"].items()
    }
    return RatioFit(lines, said["margins"])
