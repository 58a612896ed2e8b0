"""What a tree says it measured: tables, timings and lines of JSON, as far as they can be read."""

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
from harness.extras.foreign.finding import Finding, Kind

_TIME: Final = re.compile(r"\btime_ms\s*[:=]\s*([0-9.eE+-]+)")
_RATIO: Final = re.compile(r"\bratio\b[^:=\n]*[:=]\s*([0-9.eE+-]+)")
_NAMES: Final = ("iteration", "iter", "name", "file", "script")
_TIMES: Final = ("time_ms", "latency_ms", "ms")


@dataclass(frozen=True, slots=True)
class Result:
    """One figure: which iteration's, milliseconds a launch, and where it stands."""

    path: Path
    line: int
    number: int
    time_ms: float
    ratio: float | None = None  # to the library, where it is told


def read(folder: Path) -> tuple[list[Result], list[Finding]]:
    """All figures of a folder of results, one problem's and one model's, and what is no line of results."""
    found = list(_read(folder))
    return [each for each in found if isinstance(each, Result)], [each for each in found if isinstance(each, Finding)]


def _read(folder: Path) -> Iterator[Result | Finding]:
    for path in sorted(folder.glob("*")):
        try:
            if path.is_file():
                yield from _figures(path)
        except OSError as error:
            yield Finding(Kind.UNREADABLE, path, 0, explained(error))


def _figures(path: Path) -> Iterator[Result | Finding]:
    """The figures of one file; raises OSError."""
    if path.suffix in (".tsv", ".csv") and not path.name.startswith("ncu_"):
        yield from _table(path)
    elif path.suffix == ".jsonl" and path.stem == "results":
        yield from _lines(path)
    elif path.suffix == ".txt":
        yield from _timing(path)


def _table(path: Path) -> Iterator[Result | Finding]:
    text = path.read_text(encoding="utf-8", errors="replace")
    rows = csv.DictReader(io.StringIO(text, newline=""), dialect="excel-tab" if path.suffix == ".tsv" else "excel")
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield Finding(Kind.UNREADABLE, path, rows.reader.line_num, f"it is no row of a table: {error}")
            continue
        if row is None:
            return
        yield from _result(path, rows.line_num, row)


def _lines(path: Path) -> Iterator[Result | Finding]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            yield Finding(Kind.UNREADABLE, path, number, "it is no JSON")
            continue
        except RecursionError:
            yield Finding(Kind.UNREADABLE, path, number, "its JSON is nested too deeply")
            continue
        if isinstance(row, dict):
            measured = row.get("measurement")
            yield from _result(path, number, row | measured if isinstance(measured, dict) else row)


def _timing(path: Path) -> Iterator[Result]:
    iteration = loose_number(path.name)
    if iteration is None:
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    told = _RATIO.search(text)
    for number, line in enumerate(text.splitlines(), start=1):
        match = _TIME.search(line)
        time_ms = _float(match[1]) if match else None
        if time_ms is not None:
            yield Result(path, number, iteration, time_ms, _float(told[1]) if told else None)


def _result(path: Path, line: int, row: dict[str, Any]) -> Iterator[Result]:
    named = next((str(row[name]) for name in _NAMES if isinstance(row.get(name), str | int)), "")
    number = int(named) if re.fullmatch(r"[0-9]{1,4}", named) else loose_number(named)
    time_ms = next((found for name in _TIMES if (found := _float(row.get(name))) is not None), None)
    if number is not None and time_ms is not None:
        yield Result(path, line, number, time_ms, _float(row.get("ratio")))


def _float(value: object) -> float | None:
    if not isinstance(value, str | int | float):
        return None
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None
