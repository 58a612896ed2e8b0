"""The front's model: how fast a candidate is beside the library, fitted to what a GPU measured.

Six things of a product and a tile go in: K, the number of waves, whether 128 divides the rows, and the pitches. The
others are how short the product is, and how much better the library's best tile would fill the SMs. `python -m
kernels.front.fit` makes the file again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import exp, log
from pathlib import Path
from typing import Any, Final

from harness.judge.facts.problem import DTYPE_BYTES, Problem
from kernels.front.candidates import CANDIDATES
from kernels.operands import ceildiv

FOLDER: Final = Path(__file__).parent / "models"
ALIGNED_BYTES: Final = 128  # a pitch with which every row of a tile is one whole line of the L2
ROWS_UNIT: Final = 128
LONG_K: Final = 4096  # beyond it the epilogue weighs nothing
SHORT_WORK: Final = 2e10  # M N K of some 50 µs; below it starts and ends of blocks weigh more
LOSS: Final = 0.99  # a ratio below it, beyond its interval
PITCH_CLASSES: Final = ("aligned", "unaligned")
INTENSITY: Final = 90.0  # a b / (a + b) of a tile a x b that is bound by the tensor cores
INTENSITY_POWER: Final = 0.2


@dataclass(frozen=True, slots=True)
class RatioLine:
    """The logarithm of a ratio as a sum of terms; ``error`` is its standard deviation on records left out."""

    coefficients: tuple[float, ...]
    error: float

    def at(self, terms: tuple[float, ...]) -> float:
        return sum(factor * term for factor, term in zip(self.coefficients, terms, strict=True))


@dataclass(frozen=True, slots=True)
class RatioEstimate:
    """The library's time over the candidate's: what is expected, and what is nearly always exceeded."""

    name: str
    ratio: float
    low: float


@dataclass(frozen=True)
class RatioModel:
    """A margin is how many errors below the expectation a candidate must still be ahead."""

    sms: int
    library_tiles: tuple[tuple[int, int], ...]
    lines: Mapping[str, RatioLine]  # by candidate and class of pitches, such as wide256/aligned
    least: Mapping[str, float]  # of rows, K, and fill, as far down as was measured
    margins: Mapping[str, float]  # by class of pitches

    def best(self, problem: Problem) -> RatioEstimate | None:
        """The candidate with the highest lower bound; None outside of what was measured."""
        rows, _, depth = problem.dims
        if rows < self.least["rows"] or depth < self.least["K"]:
            return None
        made = [self._estimate(name, problem) for name in CANDIDATES]
        return max(filter(None, made), key=lambda each: each.low, default=None)

    def _estimate(self, name: str, problem: Problem) -> RatioEstimate | None:
        line = self.lines.get(f"{name}/{pitch_class(problem)}")
        if line is None or not CANDIDATES[name].takes(problem) or fill(name, problem, self.sms) < self.least["fill"]:
            return None
        expected = line.at(terms(name, problem, self.sms, self.library_tiles))
        return RatioEstimate(name, exp(expected), exp(expected - self.margins[pitch_class(problem)] * line.error))


def pitch_class(problem: Problem) -> str:
    size = DTYPE_BYTES[problem.input]
    whole = all(shape[-1] * size % ALIGNED_BYTES == 0 for shape, _ in problem.tensors)
    return PITCH_CLASSES[not whole]


def terms(name: str, problem: Problem, sms: int, library_tiles: tuple[tuple[int, int], ...]) -> tuple[float, ...]:
    M, N, K = problem.dims
    gap = max(library_fill(tile, M, N, sms) for tile in library_tiles) / fill(name, problem, sms)
    short = min(0.0, log(M * N * K / SHORT_WORK))
    whole_rows = float(M % ROWS_UNIT == 0)
    return (1.0, log(gap), log(min(K, LONG_K) / LONG_K), whole_rows, 1 / waves(name, problem, sms), short)


def waves(name: str, problem: Problem, sms: int) -> int:
    levers = CANDIDATES[name].levers
    M, N, _ = problem.dims
    cluster = levers.get("cluster_M", 1)
    clusters = ceildiv(ceildiv(M, levers["block_M"]), cluster) * ceildiv(N, levers["block_N"])
    return ceildiv(clusters, sms // cluster)


def fill(name: str, problem: Problem, sms: int) -> float:
    """Useful elements of C over those that the waves have room for."""
    levers = CANDIDATES[name].levers
    M, N, _ = problem.dims
    return float(M * N / (waves(name, problem, sms) * sms * levers["block_M"] * levers["block_N"]))


def library_fill(tile: tuple[int, int], M: int, N: int, sms: int) -> float:
    """``fill`` of a library's tile; a small tile counts less, since it loads more."""
    rows, columns = tile
    taken = ceildiv(ceildiv(M, rows) * ceildiv(N, columns), sms) * sms * rows * columns
    intensity = rows * columns / (rows + columns) / INTENSITY
    weight = float(min(1.0, intensity**INTENSITY_POWER))
    return weight * M * N / taken


@cache
def model(key: str | None) -> RatioModel | None:
    """The model of a GPU; None where nothing was measured."""
    path = FOLDER / f"{key}.json"
    return read(json.loads(path.read_text())) if key and path.is_file() else None


def read(said: Mapping[str, Any]) -> RatioModel:
    return RatioModel(
        said["sms"],
        tuple((rows, columns) for rows, columns in said["library_tiles"]),
        {name: RatioLine(tuple(line["coefficients"]), line["error"]) for name, line in said["lines"].items()},
        said["least"],
        said["margins"],
    )
