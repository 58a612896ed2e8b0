"""The figures that a tree records: tables, timings and lines of JSON, as far as they can be read."""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.catalog.names import loose_number
from harness.errors import explained
from harness.extras.foreign.finding import AuditFinding, Kind

_TIME: Final = re.compile(r"\btime_ms\s*[:=]\s*([0-9.eE+-]+)")
_RATIO: Final = re.compile(r"\bratio\b[^:=\n]*[:=]\s*([0-9.eE+-]+)")
_NAMES: Final = ("iteration", "iter", "name", "file", "script")
_TIMES: Final = ("time_ms", "latency_ms", "ms")


@dataclass(frozen=True, slots=True)
class ClaimedFigure:
    """One recorded figure of an iteration: ms a launch, the ratio to the library where recorded, and the place.

    ``made_by`` has the hashes of tilebench's judge and of the kernel's families, in its own records.
    """

    path: Path
    line: int
    number: int
    time_ms: float
    ratio: float | None = None
    made_by: tuple[str, str] | None = None


def read(folder: Path) -> tuple[list[ClaimedFigure], list[AuditFinding]]:
    """All figures in a folder of results of one problem and model, and a finding for each line that is unreadable."""
    found = [each for path in sorted(folder.glob("*")) if path.is_file() for each in _of_file(path)]
    figures = [each for each in found if isinstance(each, ClaimedFigure)]
    return figures, [each for each in found if isinstance(each, AuditFinding)]


def positive(value: object) -> float | None:
    """A positive finite number, also one in text; None for all else."""
    if not isinstance(value, str | int | float):
        return None
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None


def _of_file(path: Path) -> Iterator[ClaimedFigure | AuditFinding]:
    try:
        if path.suffix in (".tsv", ".csv") and not path.name.startswith("ncu_"):
            yield from _of_table(path)
        elif path.name == "results.jsonl":
            yield from _of_json_lines(path)
        elif path.suffix == ".txt":
            yield from _of_timing(path)
    except OSError as error:
        yield AuditFinding(Kind.UNREADABLE, path, 0, explained(error))


def _of_table(path: Path) -> Iterator[ClaimedFigure | AuditFinding]:
    text = path.read_text(encoding="utf-8", errors="replace")
    rows = csv.DictReader(io.StringIO(text, newline=""), dialect="excel-tab" if path.suffix == ".tsv" else "excel")
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield AuditFinding(Kind.UNREADABLE, path, rows.reader.line_num, f"it is no row of a table: {error}")
            continue
        if row is None:
            return
        yield from _of_row(path, rows.line_num, row)


def _of_json_lines(path: Path) -> Iterator[ClaimedFigure | AuditFinding]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            wrong = "it is no JSON" if isinstance(error, ValueError) else "its JSON is nested too deeply"
            yield AuditFinding(Kind.UNREADABLE, path, number, wrong)
            continue
        if isinstance(row, dict):
            measured = row.get("measurement")
            yield from _of_row(path, number, row | measured if isinstance(measured, dict) else row)


def _of_timing(path: Path) -> Iterator[ClaimedFigure]:
    iteration = loose_number(path.name)
    if iteration is None:
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    ratio = _RATIO.search(text)
    for number, line in enumerate(text.splitlines(), start=1):
        match = _TIME.search(line)
        time_ms = positive(match[1]) if match else None
        if time_ms is not None:
            yield ClaimedFigure(path, number, iteration, time_ms, positive(ratio[1]) if ratio else None)


def _of_row(path: Path, line: int, row: dict[str, Any]) -> Iterator[ClaimedFigure]:
    name = next((str(row[each]) for each in _NAMES if isinstance(row.get(each), str | int)), "")
    number = int(name) if re.fullmatch(r"[0-9]{1,4}", name) else loose_number(name)
    time_ms = next((found for each in _TIMES if (found := positive(row.get(each))) is not None), None)
    if number is not None and time_ms is not None:
        yield ClaimedFigure(path, line, number, time_ms, positive(row.get("ratio")), _made_by(row))


def _made_by(row: dict[str, Any]) -> tuple[str, str] | None:
    environment = row.get("environment")
    judge = environment.get("judge_sha256") if isinstance(environment, dict) else None
    return (judge, str(row.get("families_sha256"))) if isinstance(judge, str) else None
