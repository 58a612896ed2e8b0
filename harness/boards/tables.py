"""Tables for a terminal: the leaderboard, comparisons, and a play-off."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tabulate import tabulate, tabulate_formats

from harness.boards.comparison import Change, Comparison
from harness.boards.leaderboard import Board, BoardRow
from harness.catalog.tree import Selection
from harness.errors import UsageError
from harness.records.base import Status
from harness.records.playoffs import PlayOff

# Column -> alignment.
_BOARD: Final = {
    "rank": "right",
    "iteration": "left",
    "model": "left",
    "time_ms": "right",
    "TFLOPS": "right",
    "ratio": "right",
    "95% interval": "left",
    "max_abs_err": "right",
    "": "left",
    "bound": "left",
    "notes": "left",
}
_COMPARISON: Final = {
    "problem": "left",
    "model": "left",
    "iteration": "left",
    "verdict": "left",
    "change": "right",
    "95% interval of B / A": "left",
    "ratio A": "right",
    "ratio B": "right",
    "notes": "left",
}
_PLAY_OFF: Final = {
    "model": "left",
    "iteration": "left",
    "ratio": "right",
    "behind": "right",
    "95% interval, %": "left",
}


def check_format(table_format: str) -> None:
    """Raise UsageError for a format that tabulate does not know."""
    if table_format not in tabulate_formats:
        raise UsageError(f"unknown table format '{table_format}'; known: {', '.join(tabulate_formats)}")


def leaderboard(board: Board, table_format: str = "simple") -> str:
    """The table of one problem, below a line with its environment. Raises UsageError for an unknown format."""
    if board.environment is None:
        where = "not measured yet"
    else:
        versus = f"; ratio to {board.baseline} at {board.baseline_rate}" if board.baseline_rate else ""
        where = f"{board.environment.line()}; timer {board.timer or 'none'}{versus}"
    if board.copy_gbs is not None:
        where += f"; memory-bound: a copy of as many bytes reaches {board.copy_gbs:.4g} GB/s"
    unit = "GB/s, of copy" if board.in_gbs else "TFLOPS"
    columns = {unit if name == "TFLOPS" else name: align for name, align in _BOARD.items()}
    body = _table(columns, (_cells(row, in_gbs=board.in_gbs) for row in board.rows), table_format)
    return f"{board.problem} on {board.gpu}\n{where}\n\n{body}\n"


def comparisons(found: list[Comparison], table_format: str = "simple") -> str:
    """The comparisons of two runs: changes first, then equals, then those that cannot be compared."""
    order = list(Change)
    rows = (
        (
            each.problem,
            each.model,
            each.iteration,
            each.verdict.value,
            "" if each.quotient is None else f"{100 * (each.quotient - 1):+.2f}%",
            _interval(each.low, each.high),
            _figure(each.ratio_a, ".4f"),
            _figure(each.ratio_b, ".4f"),
            each.why or "; ".join(each.notes),
        )
        for each in sorted(found, key=lambda each: (order.index(each.verdict), each.problem))
    )
    counts = Counter(each.verdict for each in found)
    told = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in order if counts[verdict])
    return f"{_table(_COMPARISON, rows, table_format)}\n\n{told}"


def play_off(held: PlayOff) -> str:
    """The order of a play-off, each entry with its distance from the first."""
    rows = (
        (
            each.model,
            each.iteration,
            f"{statistics.geometric_mean(each.ratios):.4f}",
            "" if each.behind == 1 else f"{100 * (each.behind - 1):.2f}%",
            "" if each.behind == 1 else f"[{100 * (each.low - 1):.2f}, {100 * (each.high - 1):.2f}]",
        )
        for each in held.standings
    )
    title = f"{held.shape_key} on {held.gpu}, {len(held.standings[0].ratios)} rounds"
    return f"{title}\n\n{_table(_PLAY_OFF, rows)}"


def narrowing(selection: Selection) -> str:
    """A selection as command-line options."""
    parts = {"shape": selection.shape, "model": selection.model, "iter": selection.iteration, "share": selection.share}
    return ", ".join(f"--{name} {value}" for name, value in parts.items() if value is not None)


def no_iteration(key: str, selection: Selection, name: str = "iteration") -> str:
    """The complaint that a selection is empty; without a selection it says how to begin."""
    words = narrowing(selection)
    rest = f"matches {words}" if words else f"yet; `tilebench new --gpu {key}` begins a ladder"
    return f"no {name} under tuning/{key}/ {rest}"


def _table(columns: Mapping[str, str], rows: Iterable[tuple[str, ...]], table_format: str = "simple") -> str:
    check_format(table_format)
    headers, aligned = tuple(columns), tuple(columns.values())
    return tabulate(list(rows), headers, table_format, disable_numparse=True, colalign=aligned)


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
    share = "" if row.of_copy is None else f", {row.of_copy:4.0%}"
    return (
        _figure(row.rank, "d"),
        row.iteration,
        row.model,
        _figure(row.time_ms, ".4g"),
        f"{_figure(row.gbs, '.4g')}{share}" if in_gbs else _figure(row.tflops, ".4g"),
        _figure(row.ratio, ".4f"),
        _interval(row.ratio_low, row.ratio_high),
        _figure(row.max_abs_err, ".2g"),
        row.decision or "",
        row.bound or "",
        "; ".join(notes),
    )


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{low:.4f}, {high:.4f}]"
