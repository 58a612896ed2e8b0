"""The rows that plots are drawn from: figures of records and decisions of the leaderboard, one dict a mark."""

from typing import Any, Final

import numpy as np

from harness.extras.report.figures import tame
from harness.extras.report.gather import Entry, Report, Sheet
from harness.extras.report.roofline import Roofline
from harness.runs import copy_bandwidth

Rows = list[dict[str, Any]]
FAR: Final = 2.0  # times the median ratio of all problems


def forest(report: Report) -> Rows:
    """The best of each problem, largest ratio first; a copy that only shows how fast memory is competes with nobody."""
    rows = []
    for shape in report.best_first:
        best = shape.best
        if shape.problem.operator == copy_bandwidth.OPERATOR and all(len(sheet.ladder) == 1 for sheet in shape.sheets):
            continue
        if best is None or best.row.ratio_low is None or best.row.ratio_high is None:
            continue
        low, high = best.row.ratio_low, best.row.ratio_high
        rows.append(
            {
                "problem": shape.problem.shape_key,
                "iteration": best.row.iteration,
                "ratio": best.row.ratio,
                "low": low,
                "high": high,
                "written": f"{best.row.ratio:.4f}{' stale' if best.row.stale else ''}",
                "verdict": "faster" if best.row.is_ahead else "slower" if high < 1 else "as fast",
                "page": shape.page,
            }
        )
    return rows


def reach(forest: Rows) -> float | None:
    """Where the axis of ratios ends, if some lie so far out that nobody could tell the others apart; else None."""
    if not forest:
        return None
    ratios = [row["ratio"] for row in forest]
    within = [row["high"] for row in forest if row["ratio"] <= FAR * float(np.median(ratios))]
    return max(within) if len(within) < len(forest) else None


def ladder(sheet: Sheet) -> Rows:
    """In the order of tuning; ``best`` is what the leaderboard's decisions kept so far, of the same model."""
    rows = []
    best: dict[str, Entry] = {}
    for entry in sheet.ladder:
        row = entry.row
        if row.ratio is None and not entry.failed:
            continue
        if entry.outcome == "keep":
            best[row.model] = entry
        held = best.get(row.model)
        tflops = _tflops_of_rounds(entry)
        rows.append(
            {
                "iteration": row.iteration,
                "number": entry.iteration.number,
                "model": row.model,
                "outcome": entry.outcome,
                "ratio": None if entry.failed else row.ratio,
                "ratio_low": None if entry.failed else row.ratio_low,
                "ratio_high": None if entry.failed else row.ratio_high,
                "ratio_best": held.row.ratio if held else None,
                "tflops": None if entry.failed else row.tflops,
                "tflops_low": tflops[0],
                "tflops_high": tflops[1],
                "tflops_best": held.row.tflops if held else None,
                "said": tame(row.reason or row.idea or ""),
                "label": f"{row.iteration} of {row.model}, {entry.outcome}"
                + (f", ratio {row.ratio:.4f}" if row.ratio is not None and not entry.failed else ""),
                "page": entry.page,
            }
        )
    return rows


def _tflops_of_rounds(entry: Entry) -> tuple[float | None, float | None]:
    """Where the middle 95% of the rounds lie."""
    measured = entry.record.measurement if entry.record else None
    times = [block.contestant_ms for block in measured.blocks if block.contestant_ms > 0] if measured else []
    if not times or entry.failed:
        return None, None
    rates = [entry.iteration.problem.flops / (time_ms * 1e9) for time_ms in times]
    low, high = np.quantile(rates, (0.025, 0.975))
    return round(float(low), 2), round(float(high), 2)


def roofline(found: Roofline) -> dict[str, Rows]:
    """``rows`` are the iterations and ``roofs`` the corners of each roof."""
    start, end = found.span
    roofs = [
        {"kind": roof.kind, "intensity": at, "tflops": roof.at(at)}
        for roof in found.roofs
        for at in (start, roof.ridge, end)
    ]
    rows = [
        {
            "iteration": point.entry.row.iteration,
            "model": point.entry.row.model,
            "bytes": "counted by ncu" if point.counted else "each tensor once",
            "intensity": point.intensity,
            "tflops": point.tflops,
            "bound": point.entry.row.bound or "not profiled",
            "label": f"{point.entry.row.iteration}: {point.tflops:.4g} TFLOPS at {point.intensity:.4g} FLOP per byte",
            "page": point.entry.page,
        }
        for point in found.points
    ]
    return {"rows": rows, "roofs": roofs}
