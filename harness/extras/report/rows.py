"""The data of the plots: figures of records and decisions of the leaderboard, one dict for each mark."""

from typing import Any, Final

import numpy as np

from harness.boards.rivals import Rivalry
from harness.extras.report.figures import tame
from harness.extras.report.gather import Report, ReportEntry, Shape, Sheet
from harness.extras.report.roofline import Roofline

Rows = list[dict[str, Any]]
FAR: Final = 2.0  # times the median ratio of all problems
NEAR: Final = 0.9  # times the lowest end of a leader's interval


def forest(report: Report) -> Rows:
    """The best entry of each problem that competes, largest ratio first.

    ``beyond`` marks a ratio so large that the others could not be told apart: it stands beyond the axis.
    """
    shapes = [shape for shape in report.best_first if shape.competes and shape.best]
    best = [(shape.best.row, shape.rivals[0]) for shape in shapes if shape.best]
    ranked = [(row, found) for row, found in best if row.ratio_low is not None and row.ratio_high is not None]
    median = float(np.median([row.ratio for row, _ in ranked])) if ranked else 0.0
    least, most = NEAR * min((row.ratio_low or 0.0 for row, _ in ranked), default=0.0), FAR * median
    return [
        {
            "problem": row.problem,
            "iteration": row.iteration,
            "ratio": row.ratio,
            "low": row.ratio_low,
            "high": row.ratio_high,
            "beyond": (row.ratio or 0.0) > most,
            "stale": bool(row.stale),
            "verdict": "faster" if row.is_ahead else "slower" if (row.ratio_high or 0.0) < 1 else "as fast",
            "page": f"/{row.problem}",
            **_opponent(found, least, most),
        }
        for row, found in ranked
    ]


def _opponent(found: Rivalry | None, least: float, most: float) -> dict[str, Any]:
    """The mark of the strongest opponent, unless it is so far out that the axis would serve it alone."""
    if found is None or not least <= (found.opponent.ratio or 0.0) <= most:
        return {"opponent": None}
    row = found.opponent
    figures = {"opponent_ratio": row.ratio, "opponent_low": row.ratio_low, "opponent_high": row.ratio_high}
    return figures | {"opponent": row.iteration}


def ladder(shape: Shape, sheet: Sheet) -> Rows:
    """Entries in the order of tuning. ``*_best`` is the entry of the same model that was kept last."""
    rows = []
    best: dict[str, ReportEntry] = {}
    for entry in sheet.ladder:
        row = entry.row
        if row.ratio is None and not entry.failed:
            continue
        if entry.outcome == "keep":
            best[row.model] = entry
        held = best[row.model].row if row.model in best else None
        figures: dict[str, Any] = {}
        said = ""
        if not entry.failed:
            figures = {"ratio": row.ratio, "ratio_low": row.ratio_low, "ratio_high": row.ratio_high}
            figures |= {"rate": shape.throughput(row.time_ms)} | _throughput_of_rounds(shape, entry)
            said = f", ratio {row.ratio:.4f}"
        rows.append(
            figures
            | {
                "iteration": row.iteration,
                "number": entry.iteration.number,
                "model": row.model,
                "outcome": entry.outcome,
                "ratio_best": held.ratio if held else None,
                "rate_best": shape.throughput(held.time_ms) if held else None,
                "idea": tame(row.reason or row.idea or ""),
                "label": f"{row.iteration} of {row.model}, {entry.outcome}{said}",
                "page": entry.page,
            }
        )
    return rows


def _throughput_of_rounds(shape: Shape, entry: ReportEntry) -> dict[str, float]:
    """The range of the middle 95% of the rounds."""
    blocks = entry.measured.blocks if entry.measured else ()
    rates = [rate for block in blocks if (rate := shape.throughput(block.contestant_ms)) is not None]
    if not rates:
        return {}
    low, high = np.quantile(rates, (0.025, 0.975))
    return {"rate_low": round(float(low), 2), "rate_high": round(float(high), 2)}


def roofline(found: Roofline) -> dict[str, Rows]:
    """``rows`` are the iterations, ``roofs`` the corners of each roof."""
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
