"""Fit the front's model to records: `python -m kernels.front.fit [--check] [GPU]` writes kernels/front/models/GPU.json.

Least squares for each candidate and class of pitches. A line's error comes from layers left out one at a time: all
records with one N and K. So does the margin: some errors more than the smallest with which no record that was left out
would have been a loss. An error is that of a prediction, so it is larger far from the records.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from harness.judge.facts.problem import Problem, parse_shape_key
from kernels.front.arguments import SECOND
from kernels.front.candidates import CANDIDATES, PING_PONG, WARP_SPECIALIZED
from kernels.front.model import (
    FOLDER,
    KNOWN,
    LOSS,
    MARGIN_CLASSES,
    SPLIT,
    UNKNOWN,
    LibraryTile,
    fill,
    margin_class,
    pitch_class,
    terms,
)

RECORDS: Final = Path(__file__).parent / "measured"
LEAST: Final = {"rows": 256, "K": 384, "fill": 0.86}
WHOLE_TILES: Final = (WARP_SPECIALIZED, PING_PONG)  # in these families one block computes a whole tile of C
LEAST_RECORDS: Final = 15  # of a line
ERROR_MAX: Final = 0.06  # of a line; one that knows less is left out
RIDGE: Final = 1e-4
MARGINS: Final = tuple(step / 20 for step in range(20, 161))  # one error at the least
# Errors; with these no own pick of layer folds was a loss where the library's tile is known, and one in 100 elsewhere.
SPARE: Final = {"large": 0.5, "small": 2.0, "unaligned": 1.5}
TILE_AREA_LEAST: Final = 20_000  # smaller ones are the library's for problems outside of the model

Tiles = tuple[LibraryTile, ...]
Matrix = NDArray[np.float64]
Apart = tuple[float, float, float]  # (expected without it, the error there, ratio)
Left = dict[Problem, list[Apart]]


def fitted(rows: list[dict[str, Any]]) -> dict[str, Any]:
    header, records = rows[0], _merged(rows[1:])
    tiles, known = _library_tiles(records), {each["key"]: (tuple(each["tile"]),) for each in records if _tells(each)}
    said = [each for each in records if each["key"] in known]
    fits = {
        KNOWN: _fit(header["sms"], said, lambda key: known[key]),
        UNKNOWN: _fit(header["sms"], records, lambda _: tiles),
    }
    return {**header, "least": LEAST, "library_tiles": tiles, "fits": fits}


def _merged(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record of each product; a ratio that was measured again becomes the geometric mean."""
    merged: dict[str, dict[str, Any]] = {}
    ratios: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        merged.setdefault(record["key"], {}).update(record)
        for name, (ratio, *_) in record["ratios"].items():
            ratios[record["key"]][name].append(log(ratio))
    return [
        record | {"ratios": {name: exp(fmean(logs)) for name, logs in ratios[key].items()}}
        for key, record in merged.items()
    ]


def _tells(record: dict[str, Any]) -> bool:
    return "tile" in record and not any(SPLIT in each for each in record.get("kernels", ()))


def _fit(sms: int, records: list[dict[str, Any]], tiles_of: Callable[[str], Tiles]) -> dict[str, Any]:
    samples: dict[str, list[tuple[Problem, tuple[float, ...], float]]] = defaultdict(list)
    for record in records:
        problem = parse_shape_key(record["key"])
        if problem.operator not in SECOND or problem.dims[0] < LEAST["rows"] or problem.dims[2] < LEAST["K"]:
            continue
        for name, ratio in record["ratios"].items():
            if CANDIDATES[name].family in WHOLE_TILES and fill(CANDIDATES[name], problem, sms) >= LEAST["fill"]:
                at = terms(name, problem, sms, tiles_of(record["key"]))
                samples[f"{name}/{pitch_class(problem)}"].append((problem, at, ratio))
    lines: dict[str, Any] = {}
    left: Left = defaultdict(list)
    for name, sample in sorted(samples.items()):
        line, apart = _line(sample) if len(sample) >= LEAST_RECORDS else (None, [])
        if line is not None and line["error"] <= ERROR_MAX:
            lines[name] = line
            for problem, apart_of in apart:
                left[problem].append(apart_of)
    margins = {
        name: SPARE[name] + _margin({p: f for p, f in left.items() if margin_class(p) == name})
        for name in MARGIN_CLASSES
    }
    taken = [ratio for problem, found in left.items() if (ratio := _taken(found, margins[margin_class(problem)]))]
    left_out = {
        "problems": len(left),
        "own": len(taken),
        "geomean": round(float(np.exp(np.mean(np.log(taken)))), 4),
        "least": min(taken),
    }
    return {"margins": margins, "left_out": left_out, "lines": lines}


def _line(sample: list[tuple[Problem, tuple[float, ...], float]]) -> tuple[dict[str, Any], list[tuple[Problem, Apart]]]:
    """The line, and of each problem what was expected without its layer."""
    A = np.array([at for _, at, _ in sample])
    y = np.array([log(ratio) for *_, ratio in sample])
    layers = np.array([each.dims[1:] for each, *_ in sample])
    expected, spread = np.empty_like(y), np.empty_like(y)
    for layer in np.unique(layers, axis=0):
        out = (layers == layer).all(axis=1)
        inverse, coefficients = _least_squares(A[~out], y[~out])
        expected[out] = A[out] @ coefficients
        spread[out] = np.sqrt(1 + np.einsum("ij,jk,ik->i", A[out], inverse, A[out]))
    inverse, coefficients = _least_squares(A, y)
    error = round(float(np.sqrt(np.mean(((y - expected) / spread) ** 2))), 5)
    line = {
        "records": len(sample),
        "error": error,
        "coefficients": [round(float(each), 5) for each in coefficients],
        "inverse": [[round(float(each), 6) for each in row] for row in inverse],
    }
    at = zip(sample, expected, spread, strict=True)
    return line, [(problem, (float(e), error * float(s), ratio)) for (problem, _, ratio), e, s in at]


def _least_squares(A: Matrix, y: Matrix) -> tuple[Matrix, Matrix]:
    """The inverse of the normal matrix, and the coefficients."""
    inverse: Matrix = np.linalg.inv(A.T @ A + RIDGE * np.eye(A.shape[1])).astype(np.float64)
    coefficients: Matrix = inverse @ A.T @ y
    return inverse, coefficients


def _margin(left: Left) -> float:
    """The smallest with which none of the problems, left out, would have been a loss."""
    return next(each for each in MARGINS if all((_taken(found, each) or 1.0) >= LOSS for found in left.values()))


def _taken(found: list[Apart], margin: float) -> float | None:
    """The ratio of the candidate that would be taken; None where that is the library."""
    low, ratio = max((expected - margin * error, ratio) for expected, error, ratio in found)
    return ratio if low > log(LOSS) else None


def _library_tiles(records: list[dict[str, Any]]) -> Tiles:
    """The large tiles that the library was seen to take, either way round."""
    seen = {tuple(record["tile"]) for record in records if "tile" in record}
    large = {(a, b) for a, b in seen if a * b >= TILE_AREA_LEAST}
    return tuple(sorted(large | {(b, a) for a, b in large}))


def text(key: str) -> str:
    rows = [json.loads(row) for row in (RECORDS / f"{key}.jsonl").read_text().splitlines()]
    return json.dumps(fitted(rows), indent=1) + "\n"


def main(arguments: list[str]) -> int:
    key = next((each for each in arguments if not each.startswith("-")), "h200")
    path, made = FOLDER / f"{key}.json", text(key)
    if "--check" in arguments:
        same = path.is_file() and path.read_text() == made
        print(f"{path.name}: {'is' if same else 'is not'} what the records give")
        return int(not same)
    path.write_text(made)
    for name, fit in json.loads(made)["fits"].items():
        print(f"{path}, library's tile {name}: {fit['left_out']}, margins {fit['margins']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
