"""The board of a foreign tree: judged scripts, ranked and beside the tree's claims; self-reported ones apart."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from harness.boards.ranking import ranks
from harness.errors import printable
from harness.evidence import report
from harness.evidence.report import BuildRow
from harness.extras.foreign import results
from harness.extras.foreign.record import Basis, ForeignRecord
from harness.extras.foreign.scripts import ForeignScript
from harness.machine.progress import console
from harness.machine.table import figure, interval, paragraph
from harness.machine.table import table as as_table
from harness.records.base import Environment, Status
from harness.records.results import Record

RIGHT: Final = ("rank", "time_ms", "TFLOPS", "ratio", "claimed ms", "ours/claimed")
OPTIONAL: Final = ("TFLOPS", "time_ms", "model", "claimed ms", "ours/claimed", "its VERIFY")
CUT: Final = {"script": 14}
WRAP: Final = {"notes": 16, "why it is not judged": 24}


class ForeignRow(msgspec.Struct, frozen=True):
    """One script. ``time_ms`` and ``tflops`` are the judge's, or the script's own where it is self-reported.

    ``claimed_ms`` is the median of the ``claims`` figures that the tree records, ``quotient`` our time over it. Only a
    script that passed the judge has a rank, a ratio and a quotient. ``verdict`` is the script's own.
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
    """One problem: judged rows best first, then those that did not pass, and apart the self-reported rows.

    ``builds`` are the kernels that were compiled only, since this machine has no GPU; the script is the ``iteration``.
    """

    problem: str
    gpu: str
    environment: Environment
    baseline: str | None
    judged: tuple[ForeignRow, ...]
    self_reported: tuple[ForeignRow, ...]
    builds: tuple[BuildRow, ...] = ()


def of_builds(built: Sequence[tuple[ForeignScript, Record]]) -> list[ForeignBoard]:
    """One board a problem, of kernels that were compiled only."""
    rows = [
        msgspec.structs.replace(report.row(record), model=script.model, iteration=script.name)
        for script, record in built
    ]
    environments = {record.shape_key: record.environment for _, record in built}
    found = []
    for problem, environment in environments.items():
        own = tuple(row for row in rows if row.problem == problem)
        found.append(ForeignBoard(problem, own[0].gpu, environment, None, (), (), own))
    return found


def boards(outcomes: Sequence[tuple[ForeignScript, ForeignRecord]]) -> list[ForeignBoard]:
    """One board a problem, in the order of the outcomes; prints which of the tree's claims cannot be read."""
    claims: dict[Path, list[results.ClaimedFigure]] = {}
    for folder in dict.fromkeys(each for script, _ in outcomes for each in script.results):
        claims[folder], unreadable = results.read(folder)
        for each in unreadable:
            console.print(printable(f"{each.where}: {each.what}"), markup=False)
    problems = dict.fromkeys(script.shape_key for script, _ in outcomes)
    return [_board([each for each in outcomes if each[0].shape_key == problem], claims) for problem in problems]


def table(board: ForeignBoard, table_format: str = "simple") -> str:
    """A board's tables, its environment in a line above them; of builds their evidence."""
    if board.builds:
        return report.tables(board.builds) + "\n"
    versus = f"; ratio to {board.baseline}" if board.baseline else ""
    parts = [f"{board.problem} on {board.gpu}\n{paragraph(board.environment.line() + versus)}"]
    first = {"script": lambda row: row.script, "model": lambda row: row.model}
    times = {"time_ms": lambda row: figure(row.time_ms), "TFLOPS": lambda row: figure(row.tflops)}
    claimed = {"claimed ms": lambda row: figure(row.claimed_ms)}
    if board.judged:
        columns = {
            "rank": lambda row: figure(row.rank, "d"),
            **first,
            **times,
            "ratio": lambda row: figure(row.ratio, ".4f"),
            "95% interval": lambda row: interval(row.ratio_low, row.ratio_high),
            **claimed,
            "ours/claimed": lambda row: figure(row.quotient, ".3g"),
            "notes": _notes,
        }
        parts.append(as_table(board.judged, columns, table_format, right=RIGHT, optional=OPTIONAL, cut=CUT, wrap=WRAP))
    if board.self_reported:
        columns = {
            **first,
            **times,
            "its VERIFY": lambda row: {None: "", True: "PASS", False: "FAIL"}[row.verdict],
            **claimed,
            "why it is not judged": _why_not_judged,
        }
        body = as_table(board.self_reported, columns, table_format, right=RIGHT, optional=OPTIONAL, cut=CUT, wrap=WRAP)
        parts.append(f"self-reported: figures by the scripts' own word, which rank with nothing\n\n{body}")
    return "\n\n".join(parts) + "\n"


def _board(
    outcomes: Sequence[tuple[ForeignScript, ForeignRecord]], claims: dict[Path, list[results.ClaimedFigure]]
) -> ForeignBoard:
    rows = [
        _row(script, record, [each for folder in script.results for each in claims[folder]])
        for script, record in outcomes
    ]
    passed = sorted((row for row in rows if row.ratio is not None), key=lambda row: -(row.ratio or 0))
    places = ranks((row.ratio_low or 0.0, row.ratio_high or 0.0) for row in passed)
    ranked = [msgspec.structs.replace(row, rank=rank) for row, rank in zip(passed, places, strict=True)]
    record = outcomes[0][1]
    return ForeignBoard(
        problem=record.shape_key,
        gpu=record.gpu,
        environment=record.environment,
        baseline=next((each.measurement.baseline for _, each in outcomes if each.measurement is not None), None),
        judged=(*ranked, *(row for row in rows if row.ratio is None and row.basis == Basis.JUDGED)),
        self_reported=tuple(row for row in rows if row.basis == Basis.SELF_REPORTED),
    )


def _row(script: ForeignScript, record: ForeignRecord, claims: list[results.ClaimedFigure]) -> ForeignRow:
    measured = record.measurement if record.status is Status.PASSED else None
    timed = measured or record.said
    times = [each.time_ms for each in claims if each.number == script.number]
    claimed_ms = statistics.median(times) if times else None
    return ForeignRow(
        problem=script.shape_key,
        script=script.name,
        model=script.model,
        basis=record.basis.value,
        status=record.status.value,
        rank=None,
        time_ms=timed.time_ms if timed else None,
        tflops=timed.tflops if timed else None,
        **{name: getattr(measured, name, None) for name in ("ratio", "ratio_low", "ratio_high", "stable")},
        claimed_ms=claimed_ms,
        claims=len(times),
        quotient=measured.time_ms / claimed_ms if measured and claimed_ms else None,
        verdict=record.said.passed if record.said else None,
        reason=record.reason,
        ended=record.ended,
    )


def _notes(row: ForeignRow) -> str:
    notes = (
        "unstable" if row.stable is False else "",
        f"claimed: median of {row.claims}" if row.claims > 1 else "",
        f"{row.status}: {row.reason}" if row.status != Status.PASSED else "",
    )
    return "; ".join(filter(None, notes))


def _why_not_judged(row: ForeignRow) -> str:
    failed = [] if row.ended is None else [f"{'failed: ' if row.status != Status.PASSED else ''}{row.ended}"]
    return "; ".join(failed if row.reason == row.ended else [row.reason or "", *failed])
