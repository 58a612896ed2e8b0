"""Tables: the leaderboard and one-line results, for a terminal."""

import statistics
from collections import Counter
from typing import Final

from tabulate import tabulate, tabulate_formats

from harness.boards.comparison import Change, Comparison
from harness.boards.leaderboard import Board, BoardRow
from harness.catalog.tree import Selection
from harness.errors import UsageError
from harness.records.base import Status
from harness.records.playoffs import PlayOff

HEADERS: Final = (
    "rank",
    "iteration",
    "model",
    "time_ms",
    "TFLOPS",
    "ratio",
    "95% interval",
    "max_abs_err",
    "",
    "bound",
    "notes",
)


MEMORY_BOUND: Final = {"TFLOPS": "GB/s, of copy"}


def check_format(table_format: str) -> None:
    """Raise UsageError for a format that tabulate does not know."""
    if table_format not in tabulate_formats:
        raise UsageError(f"unknown table format '{table_format}'; known: {', '.join(tabulate_formats)}")


def leaderboard(board: Board, table_format: str = "simple") -> str:
    """One problem's table, its environment in a line above it; raises UsageError for an unknown format."""
    check_format(table_format)
    title = f"{board.problem} on {board.gpu}"
    if board.environment is None:
        where = "not measured yet"
    else:
        versus = f"; ratio to {board.baseline} at {board.baseline_rate}" if board.baseline_rate else ""
        where = f"{board.environment.line()}; timer {board.timer or 'none'}{versus}"
    if board.copy_gbs is not None:
        where += f"; memory-bound: a copy of as many bytes reaches {board.copy_gbs:.4g} GB/s"
    body = tabulate(
        [_cells(row, in_gbs=board.in_gbs) for row in board.rows],
        headers=tuple(MEMORY_BOUND.get(name, name) for name in HEADERS) if board.in_gbs else HEADERS,
        tablefmt=table_format,
        disable_numparse=True,
        colalign=("right", "left", "left", "right", "right", "right", "left", "right", "left", "left", "left"),
    )
    return f"{title}\n{where}\n\n{body}\n"


def comparisons(found: list[Comparison], table_format: str = "simple") -> str:
    """What changed between two runs, what did not below it, and what cannot be compared last."""
    check_format(table_format)
    order = list(Change)
    body = tabulate(
        [
            (
                each.problem,
                each.model,
                each.iteration,
                each.verdict.value,
                "" if each.quotient is None else f"{100 * (each.quotient - 1):+.2f}%",
                "" if each.low is None or each.high is None else f"[{each.low:.4f}, {each.high:.4f}]",
                "" if each.ratio_a is None else f"{each.ratio_a:.4f}",
                "" if each.ratio_b is None else f"{each.ratio_b:.4f}",
                each.why or "; ".join(each.notes),
            )
            for each in sorted(found, key=lambda each: (order.index(each.verdict), each.problem))
        ],
        headers=(
            "problem",
            "model",
            "iteration",
            "verdict",
            "change",
            "95% interval of B / A",
            "ratio A",
            "ratio B",
            "notes",
        ),
        tablefmt=table_format,
        disable_numparse=True,
        colalign=("left", "left", "left", "left", "right", "left", "right", "right", "left"),
    )
    counts = Counter(each.verdict for each in found)
    told = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in order if counts[verdict])
    return f"{body}\n\n{told}"


def standings(held: PlayOff) -> str:
    """A play-off's order, with each one's distance from the first."""
    body = tabulate(
        [
            (
                each.model,
                each.iteration,
                f"{statistics.geometric_mean(each.ratios):.4f}",
                "" if each.behind == 1 else f"{100 * (each.behind - 1):.2f}%",
                "" if each.behind == 1 else f"[{100 * (each.low - 1):.2f}, {100 * (each.high - 1):.2f}]",
            )
            for each in held.standings
        ],
        headers=("model", "iteration", "ratio", "behind", "95% interval, %"),
        disable_numparse=True,
        colalign=("left", "left", "right", "right", "left"),
    )
    return f"{held.shape_key} on {held.gpu}, {len(held.standings[0].ratios)} rounds\n\n{body}"


def narrowing(selection: Selection) -> str:
    """What narrows a run, as it was asked for."""
    parts = (("shape", selection.shape), ("model", selection.model), ("iter", selection.iteration))
    return ", ".join(f"--{name} {value}" for name, value in parts if value is not None)


def no_iteration(key: str, selection: Selection, name: str = "iteration") -> str:
    """That nothing under a GPU key is selected; where nothing narrows, how to begin."""
    words = narrowing(selection)
    return f"no {name} under tuning/{key}/ " + (
        f"matches {words}" if words else f"yet; `tilebench new --gpu {key}` begins a ladder"
    )


def _cells(row: BoardRow, *, in_gbs: bool) -> tuple[str, ...]:
    notes = []
    if row.stale:
        notes.append(f"stale: {', '.join(row.stale)}")
    if row.behind is not None:
        notes.append("play-off: first" if row.behind == 1 else f"play-off: {100 * (row.behind - 1):.2f}% behind")
    if row.stable is False:
        notes.append("unstable")
    if row.status != Status.PASSED:
        notes.append(row.status if row.reason is None else f"{row.status}: {row.reason}")
    interval = "" if row.ratio_low is None else f"[{row.ratio_low:.4f}, {row.ratio_high:.4f}]"
    return (
        "" if row.rank is None else str(row.rank),
        row.iteration,
        row.model,
        "" if row.time_ms is None else f"{row.time_ms:.4g}",
        _bandwidth(row) if in_gbs else "" if row.tflops is None else f"{row.tflops:.4g}",
        "" if row.ratio is None else f"{row.ratio:.4f}",
        interval,
        "" if row.max_abs_err is None else f"{row.max_abs_err:.2g}",
        row.decision or "",
        row.bound or "",
        "; ".join(notes),
    )


def _bandwidth(row: BoardRow) -> str:
    share = "" if row.of_copy is None else f", {row.of_copy:4.0%}"
    return "" if row.gbs is None else f"{row.gbs:.4g}{share}"
