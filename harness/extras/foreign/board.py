"""The board of a foreign tree: what was judged, ranked, beside what the tree claims; what is self-reported apart."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tabulate import tabulate

from harness.boards.leaderboard import ranks
from harness.errors import printable
from harness.extras.foreign import results
from harness.extras.foreign.entries import Entry
from harness.extras.foreign.record import Basis, ForeignRecord
from harness.machine.progress import console
from harness.records.base import Environment, Status

HEADERS = (
    "rank",
    "script",
    "model",
    "time_ms",
    "TFLOPS",
    "ratio",
    "95% interval",
    "claimed ms",
    "ours/claimed",
    "notes",
)
ALIGN = ("right", "left", "left", "right", "right", "right", "left", "right", "right", "left")
SELF_HEADERS = ("script", "model", "time_ms", "TFLOPS", "its VERIFY", "claimed ms", "why it is not judged")
SELF_ALIGN = ("left", "left", "right", "right", "left", "right", "left")


class ForeignRow(msgspec.Struct, frozen=True):
    """One script. ``time_ms`` and ``tflops`` are ours where it was judged, its own where it is self-reported.

    ``claimed_ms`` is what the tree records of it, the median of ``claims`` figures; ``quotient`` our time over that.
    Only what was judged and passed has a rank, a ratio and a quotient.
    """

    problem: str
    script: str
    model: str
    basis: str
    status: str
    rank: int | None
    time_ms: float | None
    tflops: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    stable: bool | None
    claimed_ms: float | None
    claims: int
    quotient: float | None
    verdict: bool | None
    reason: str | None
    ended: str | None


class ForeignBoard(msgspec.Struct, frozen=True):
    """One problem: judged rows best first, then those that did not pass; self-reported rows are no part of them."""

    problem: str
    gpu: str
    environment: Environment
    baseline: str | None
    judged: tuple[ForeignRow, ...]
    self_reported: tuple[ForeignRow, ...]


def boards(outcomes: Sequence[tuple[Entry, ForeignRecord]]) -> list[ForeignBoard]:
    """One board a problem, in the order of the outcomes; reads what the tree claims, and says what cannot be read."""
    claims: dict[Path, list[results.Result]] = {}
    for folder in dict.fromkeys(each for entry, _ in outcomes for each in entry.results):
        claims[folder], unread = results.read(folder)
        for each in unread:
            console.print(printable(f"{each.where}: {each.what}"), markup=False)
    found = []
    for problem in dict.fromkeys(entry.shape_key for entry, _ in outcomes):
        mine = [(entry, record) for entry, record in outcomes if entry.shape_key == problem]
        rows = [
            _row(entry, record, [each for folder in entry.results for each in claims[folder]]) for entry, record in mine
        ]
        ranked = sorted((row for row in rows if row.ratio is not None), key=lambda row: -(row.ratio or 0))
        places = ranks((row.ratio_low or 0.0, row.ratio_high or 0.0) for row in ranked)
        passed = [msgspec.structs.replace(row, rank=rank) for row, rank in zip(ranked, places, strict=True)]
        measured = [record.measurement for _, record in mine if record.measurement is not None]
        found.append(
            ForeignBoard(
                problem=problem,
                gpu=mine[0][1].gpu,
                environment=mine[0][1].environment,
                baseline=measured[0].baseline if measured else None,
                judged=(*passed, *(row for row in rows if row.ratio is None and row.basis == Basis.JUDGED)),
                self_reported=tuple(row for row in rows if row.basis == Basis.SELF_REPORTED),
            )
        )
    return found


def table(board: ForeignBoard, table_format: str = "simple") -> str:
    """A board's tables, its environment in a line above them."""
    versus = f"; ratio to {board.baseline}" if board.baseline else ""
    parts = [f"{board.problem} on {board.gpu}\n{board.environment.line()}{versus}"]
    if board.judged:
        cells = [_cells(row) for row in board.judged]
        parts.append(tabulate(cells, HEADERS, table_format, disable_numparse=True, colalign=ALIGN))
    if board.self_reported:
        own = [_self_cells(row) for row in board.self_reported]
        body = tabulate(own, SELF_HEADERS, table_format, disable_numparse=True, colalign=SELF_ALIGN)
        parts.append(f"self-reported: figures by the scripts' own word, which rank with nothing\n\n{body}")
    return "\n\n".join(parts) + "\n"


def _row(entry: Entry, record: ForeignRecord, claims: list[results.Result]) -> ForeignRow:
    judged = record.basis is Basis.JUDGED
    measured = record.measurement if record.status is Status.PASSED else None
    said = record.said
    times = [each.time_ms for each in claims if each.number == entry.number]
    claimed_ms = statistics.median(times) if times else None
    own_ms = said.time_ms if said is not None else None
    return ForeignRow(
        problem=entry.shape_key,
        script=entry.script,
        model=entry.model,
        basis=record.basis.value,
        status=record.status.value,
        rank=None,
        time_ms=measured.time_ms if measured else own_ms,
        tflops=measured.tflops if measured else said.tflops if said is not None else None,
        ratio=measured.ratio if measured else None,
        ratio_low=measured.ratio_low if measured else None,
        ratio_high=measured.ratio_high if measured else None,
        stable=measured.stable if measured else None,
        claimed_ms=claimed_ms,
        claims=len(times),
        quotient=measured.time_ms / claimed_ms if judged and measured and claimed_ms else None,
        verdict=said.passed if said is not None else None,
        reason=record.reason,
        ended=record.ended,
    )


def _cells(row: ForeignRow) -> tuple[str, ...]:
    notes = []
    if row.stable is False:
        notes.append("unstable")
    if row.claims > 1:
        notes.append(f"claimed: median of {row.claims}")
    if row.status != Status.PASSED:
        notes.append(f"{row.status}: {row.reason}")
    return (
        "" if row.rank is None else str(row.rank),
        row.script,
        row.model,
        _figure(row.time_ms),
        _figure(row.tflops),
        "" if row.ratio is None else f"{row.ratio:.4f}",
        "" if row.ratio_low is None else f"[{row.ratio_low:.4f}, {row.ratio_high:.4f}]",
        _figure(row.claimed_ms),
        "" if row.quotient is None else f"{row.quotient:.3g}",
        "; ".join(notes),
    )


def _self_cells(row: ForeignRow) -> tuple[str, ...]:
    failed = [] if row.ended is None else [f"{'failed: ' if row.status != Status.PASSED else ''}{row.ended}"]
    verdict = {None: "", True: "PASS", False: "FAIL"}[row.verdict]
    return (
        row.script,
        row.model,
        _figure(row.time_ms),
        _figure(row.tflops),
        verdict,
        _figure(row.claimed_ms),
        "; ".join(failed if row.reason == row.ended else [row.reason or "", *failed]),
    )


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
