"""Fit the front's model to records: `python -m kernels.front.fit [--check] [GPU]` writes kernels/front/models/GPU.json.

Least squares for each candidate and class of pitches. A line's error comes from records left out one at a time. So does
the margin: half an error more than the smallest with which no record that was left out would have been a loss.
"""

import json
import sys
from collections import defaultdict
from math import log
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.judge.facts.problem import Problem, parse_shape_key
from kernels.front.arguments import SECOND
from kernels.front.candidates import CANDIDATES, PING_PONG, WARP_SPECIALIZED
from kernels.front.model import FOLDER, LOSS, PITCH_CLASSES, fill, pitch_class, terms

RECORDS: Final = Path(__file__).parent / "measured"
LEAST: Final = {"rows": 256, "K": 384, "fill": 0.86}
WHOLE_TILES: Final = (WARP_SPECIALIZED, PING_PONG)  # in these families one block computes a whole tile of C
LEAST_RECORDS: Final = 15  # of a line
ERROR_MAX: Final = 0.06  # of a line; one that knows less is left out
RIDGE: Final = 1e-4
MARGINS: Final = tuple(step / 20 for step in range(20, 161))  # one error at the least
SPARE: Final = 0.5  # errors; in folds of the records it took two of three losses away
TILE_AREA_LEAST: Final = 20_000  # smaller ones are the library's for problems outside of the model

Left = dict[Problem, list[tuple[float, float, float]]]  # (expected without it, line's error, ratio)


def fitted(rows: list[dict[str, Any]]) -> dict[str, Any]:
    header, *records = rows
    sms, tiles = header["sms"], _library_tiles(records)
    samples: dict[str, list[tuple[Problem, tuple[float, ...], float]]] = defaultdict(list)
    for record in records:
        problem = parse_shape_key(record["key"])
        if problem.operator not in SECOND or problem.dims[0] < LEAST["rows"] or problem.dims[2] < LEAST["K"]:
            continue
        for name, (ratio, *_) in record["ratios"].items():
            if CANDIDATES[name].family in WHOLE_TILES and fill(name, problem, sms) >= LEAST["fill"]:
                at = terms(name, problem, sms, tiles)
                samples[f"{name}/{pitch_class(problem)}"].append((problem, at, ratio))
    lines: dict[str, Any] = {}
    left: Left = defaultdict(list)
    for name, sample in sorted(samples.items()):
        line, apart = _line(sample) if len(sample) >= LEAST_RECORDS else (None, [])
        if line is not None and line["error"] <= ERROR_MAX:
            lines[name] = line
            for problem, expected, ratio in apart:
                left[problem].append((expected, line["error"], ratio))
    margins = {name: _margin({p: f for p, f in left.items() if pitch_class(p) == name}) for name in PITCH_CLASSES}
    taken = [ratio for problem, found in left.items() if (ratio := _taken(found, margins[pitch_class(problem)]))]
    return {
        **header,
        "sms": sms,
        "margins": margins,
        "least": LEAST,
        "left_out": {
            "problems": len(left),
            "own": len(taken),
            "geomean": round(float(np.exp(np.mean(np.log(taken)))), 4),
            "least": min(taken),
        },
        "library_tiles": tiles,
        "lines": lines,
    }


def _line(
    sample: list[tuple[Problem, tuple[float, ...], float]],
) -> tuple[dict[str, Any], list[tuple[Problem, float, float]]]:
    """The line, and of each problem what it expects without that record, and the ratio."""
    A = np.array([at for _, at, _ in sample])
    y = np.array([log(ratio) for *_, ratio in sample])
    inverse = np.linalg.inv(A.T @ A + RIDGE * np.eye(A.shape[1]))
    coefficients = inverse @ A.T @ y
    apart = (y - A @ coefficients) / (1 - np.einsum("ij,jk,ik->i", A, inverse, A))
    line = {
        "records": len(sample),
        "error": round(float(apart.std()), 5),
        "coefficients": [round(float(each), 5) for each in coefficients],
    }
    return line, [(each[0], float(at), each[2]) for each, at in zip(sample, y - apart, strict=True)]


def _margin(left: Left) -> float:
    """Half an error more than the smallest with which none of the problems, left out, would have been a loss."""
    return SPARE + next(
        each for each in MARGINS if all((_taken(found, each) or 1.0) >= LOSS for found in left.values())
    )


def _taken(found: list[tuple[float, float, float]], margin: float) -> float | None:
    """The ratio of the candidate that would be taken; None where that is the library."""
    low, ratio = max((expected - margin * error, ratio) for expected, error, ratio in found)
    return ratio if low > 0 else None


def _library_tiles(records: list[dict[str, Any]]) -> tuple[tuple[int, int], ...]:
    """The tiles that the library was seen to take, either way round."""
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
    print(f"{path}: {json.loads(made)['left_out']}, margins {json.loads(made)['margins']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
