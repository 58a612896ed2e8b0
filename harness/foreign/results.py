"""What a tree says it measured: tables, timings and lines of JSON, as far as they can be read."""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_NUMBER: Final = re.compile(r"iter_?([0-9]{1,4})")
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


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that holds nothing that can be read, and why."""

    path: Path
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.why}"


def read(folder: Path) -> tuple[list[Result], list[Unread]]:
    """All figures of a folder of results, one problem's and one model's, and what is no line of results."""
    found = list(_read(folder))
    return [each for each in found if isinstance(each, Result)], [each for each in found if isinstance(each, Unread)]


def _read(folder: Path) -> Iterator[Result | Unread]:
    for path in sorted(folder.glob("*")):
        if path.suffix in (".tsv", ".csv") and not path.name.startswith("ncu_"):
            yield from _table(path)
        elif path.suffix == ".jsonl" and path.stem == "results":
            yield from _lines(path)
        elif path.suffix == ".txt":
            yield from _timing(path)


def _table(path: Path) -> Iterator[Result]:
    text = path.read_text(encoding="utf-8", errors="replace")
    dialect = "excel-tab" if path.suffix == ".tsv" else "excel"
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), dialect=dialect))
    except csv.Error:
        return
    for number, row in enumerate(rows, start=2):
        yield from _result(path, number, row)


def _lines(path: Path) -> Iterator[Result | Unread]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            yield Unread(path, number, "it is no JSON")
            continue
        except RecursionError:
            yield Unread(path, number, "its JSON is nested too deeply")
            continue
        if isinstance(row, dict):
            measured = row.get("measurement")
            yield from _result(path, number, row | measured if isinstance(measured, dict) else row)


def _timing(path: Path) -> Iterator[Result]:
    name = _NUMBER.search(path.name)
    if name is None:
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    told = _RATIO.search(text)
    for number, line in enumerate(text.splitlines(), start=1):
        match = _TIME.search(line)
        time_ms = _float(match[1]) if match else None
        if time_ms is not None:
            yield Result(path, number, int(name[1]), time_ms, _float(told[1]) if told else None)


def _result(path: Path, line: int, row: dict[str, Any]) -> Iterator[Result]:
    named = next((str(row[name]) for name in _NAMES if isinstance(row.get(name), str | int)), "")
    match = _NUMBER.search(named) or re.fullmatch(r"([0-9]{1,4})", named)
    time_ms = next((found for name in _TIMES if (found := _float(row.get(name))) is not None), None)
    if match is not None and time_ms is not None:
        yield Result(path, line, int(match[1]), time_ms, _float(row.get("ratio")))


def _float(value: object) -> float | None:
    if not isinstance(value, str | int | float):
        return None
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None
