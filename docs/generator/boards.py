"""The boards: what the records say, as Markdown; nothing here depends on the day or the machine."""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from harness.boards import tables
from harness.boards.board import Board, BoardRow
from harness.boards.leaderboard import boards
from harness.boards.rivals import rivalry
from harness.catalog.tree import Selection, Tree
from harness.judge.facts.problem import parse_shape_key
from harness.records.base import Regime

ROOT: Final = Path(__file__).resolve().parents[2]
ROWS: Final = 10
COPY: Final = "copy"  # the operator that others are compared with; it has no kernel of its own
HEADER: Final = "| problem | leader | ratio | 95% interval | vs strongest | sustained |\n|---|---|---:|---|---:|---:|"

CHANGED: Final = {"family": "the kernel family", "judge": "the judge", "source": "the source"}


def summary_board(gpu: str) -> str:
    """Ten rows: of each operator the problem in the middle, by ratio."""
    by_operator = defaultdict(list)
    for board, row in _leaders(gpu):
        by_operator[parse_shape_key(board.problem).operator].append((board, row))
    largest = sorted(by_operator.values(), key=len, reverse=True)[:ROWS]
    chosen = [sorted(group, key=lambda pair: pair[1].ratio or 0)[(len(group) - 1) // 2] for group in largest]
    ordered = sorted(chosen, key=lambda pair: pair[1].ratio or 0, reverse=True)
    return "\n".join([HEADER, *(_line(board, row, f"docs/results/{gpu}.md") for board, row in ordered)])


def headline(gpu: str) -> str:
    """The median of what the leaders reach: one slow call of the library must not carry it."""
    found = list(_leaders(gpu))
    told = (
        (
            "against the strongest kernel that a user could install",
            [_against_the_strongest(board, Regime.PAIRED) for board, _ in found],
        ),
        (
            "against the strongest at the power limit",
            [_against_the_strongest(board, Regime.SUSTAINED) for board, _ in found],
        ),
        ("against the library", [1.0 if row.is_baseline else row.ratio for _, row in found if row.ratio]),
    )
    return "\n".join(
        f"- **{statistics.median(ratios):.3f}** {against}: {len(ratios)} problems, "
        f"{sum(each > 1 for each in ratios)} above 1, lowest {min(ratios):.3f}"
        for against, measured in told
        if (ratios := [each for each in measured if each is not None])
    )


def _against_the_strongest(board: Board, regime: Regime = Regime.PAIRED) -> float | None:
    """The leader's ratio to the strongest kernel measured, the library included; None without an opponent."""
    found = rivalry(board, regime)
    return found.to_strongest if found else None


def leaders_table(gpu: str) -> str:
    """The leader of each problem, best first."""
    ordered = sorted(_leaders(gpu), key=lambda pair: pair[1].ratio or 0, reverse=True)
    return "\n".join([HEADER, *(_line(board, row, "") for board, row in ordered)])


def facts(gpu: str) -> str:
    """How much is measured, where, and the mean ratio of each operator."""
    rows = [row for board in _boards(gpu) for row in board.rows]
    measured = [row for row in rows if row.record]
    counts = Counter(row.status for row in measured)
    told = ", ".join(f"{counts[status]} {status}" for status in ("passed", "rejected", "failed") if counts[status])
    where = Counter(board.environment.line() for board in _boards(gpu) if board.environment)
    lines = [f"{len(measured)} iterations of {len({row.problem for row in measured})} problems are measured: {told}."]
    if waiting := len(rows) - len(measured):
        lines[0] += f" {waiting} more iterations wait for a measurement."
    lines += ["", "Measured on:", "", *(f"- {line}" for line, _ in where.most_common())]
    return "\n".join([*lines, "", _means(gpu)])


def ladders(gpu: str) -> str:
    """Every measured problem with all its rows, as ``tilebench leaderboard`` prints them."""
    measured = (board for board in _boards(gpu) if any(row.record for row in board.rows))
    return "\n\n".join(map(_ladder, measured))


def staleness(gpu: str) -> str:
    """One sentence where rows are stale, nothing where none is."""
    measured = [row for board in _boards(gpu) for row in board.rows if row.record]
    stale = [row for row in measured if row.stale]
    if not stale:
        return ""
    *first, last = (CHANGED[each] for each in sorted({each for row in stale for each in row.stale}))
    changed = " or ".join(filter(None, (", ".join(first), last)))
    share = f"All {len(stale)}" if len(stale) == len(measured) else f"{len(stale)} of {len(measured)}"
    return f"**{share} rows are stale**: {changed} has changed since they were measured."


@cache
def _boards(gpu: str) -> tuple[Board, ...]:
    return tuple(boards(Tree(ROOT), gpu, Selection())[0])


def _leaders(gpu: str) -> Iterable[tuple[Board, BoardRow]]:
    """The first row of each problem's newest board; a copy is what other problems are compared with."""
    newest: dict[str, Board] = {}
    for board in _boards(gpu):
        newest.setdefault(board.problem, board)
    for board in newest.values():
        if board.rows and board.rows[0].rank == 1 and parse_shape_key(board.problem).operator != COPY:
            yield board, board.rows[0]


def _means(gpu: str) -> str:
    """For each operator: its problems, those certainly ahead of the library, the geometric mean of the ratios."""
    groups = defaultdict(list)
    for board, row in _leaders(gpu):
        groups[parse_shape_key(board.problem).operator].append(row)
    lines = [
        "| operator | problems | certainly ahead | mean ratio | lowest | highest |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for operator, rows in sorted(groups.items()):
        ratios = [row.ratio for row in rows if row.ratio]
        figures = statistics.geometric_mean(ratios), min(ratios), max(ratios)
        ahead = sum(row.is_ahead for row in rows)
        lines.append(f"| `{operator}` | {len(rows)} | {ahead} | {' | '.join(f'{each:.3f}' for each in figures)} |")
    return "\n".join(lines)


def _line(board: Board, row: BoardRow, page: str) -> str:
    ratio = f"**{row.ratio:.4f}**" if row.is_ahead else f"{row.ratio:.4f}"
    cells = (
        f"[{board.problem}]({page}#{board.problem})",
        row.iteration,
        ratio,
        f"{row.ratio_low:.4f}–{row.ratio_high:.4f}{', unstable' if row.stable is False else ''}",  # noqa: RUF001
        _shown(_against_the_strongest(board), exact=bool(row.vs_best)),
        f"{row.sustained_ratio:.4f}" if row.sustained_ratio else "",
    )
    return f"| {' | '.join(cells)} |"


def _shown(ratio: float | None, *, exact: bool) -> str:
    return "" if ratio is None else f"{ratio:.4f}" if exact else f"~{ratio:.3f}"


def _ladder(board: Board) -> str:
    """Without what depends on the working tree: an edit of a family or of the judge changes no measured figure."""
    rows = tuple(
        msgspec.structs.replace(row, stale=(), bound=None, reason=row.reason and row.reason.replace("|", "\\|"))
        for row in board.rows
        if row.record
    )
    opponents = tuple(msgspec.structs.replace(row, stale=()) for row in board.opponents)
    _, _, rest = tables.leaderboard(replace(board, rows=rows, opponents=opponents), "github").partition("\n")
    return f"### {board.problem}\n\n" + re.sub(r" +\|", " |", rest).strip()
