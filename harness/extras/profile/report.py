"""A report of ncu as CSV, page ``raw``: a header row, a row of units, and a row for each profiled kernel."""

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.errors import InfrastructureError
from harness.records.profiles import Metric

_NAME: Final = "Kernel Name"
_NUMBER: Final = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_PLAIN: Final = re.compile(r"[A-Za-z%_]*(/[A-Za-z%_]*)?", re.ASCII)  # a cell of the units row
_PREFIXES: Final = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_TIMES: Final = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}
# A wrong unit among these makes a number wrong; all other units are nouns.
_SCALED: Final = {"byte", "byte/s", "byte/block", "s", "hz", "%"}


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One kernel of a report. ``where`` is its file and line; ``cells`` maps a metric to ncu's unit and text."""

    name: str
    where: str
    cells: dict[str, tuple[str, str]]

    def metric(self, name: str, unit: str | None = None) -> Metric | None:
        """A metric in its base unit; None if the report has no such column or no number in it.

        Raises InfrastructureError if the base unit is not ``unit``.
        """
        written, text = self.cells.get(name, ("", ""))
        if _NUMBER.fullmatch(text) is None:
            return None
        base, factor = base_unit(written)
        number = float(text.replace(",", "")) * factor
        if unit is not None and base != unit and {base, unit} & _SCALED:
            raise InfrastructureError(
                f"{self.where}: {name} is in '{written}', where {unit or 'a plain number'} was expected"
            )
        return Metric(number, base) if math.isfinite(number) else None


def base_unit(unit: str) -> tuple[str, float]:
    """The unit without its prefix, and the factor to it: ``Gbyte/s`` is (``byte/s``, 1e9), ``sector/ns`` 1e9 too."""
    above, slash, below = unit.partition("/")
    top, factor = _base(above)
    if not slash:
        return top, factor
    bottom, divisor = _base(below)
    return f"{top}/{bottom}", factor / divisor


def _base(unit: str) -> tuple[str, float]:
    if match := re.fullmatch(r"([KMGTP]?)bytes?", unit):
        return "byte", _PREFIXES[match[1]]
    if match := re.fullmatch(r"([KMGTP]?)hz", unit, re.IGNORECASE):
        return "hz", _PREFIXES[match[1].upper()]
    if match := re.fullmatch(r"([num]?)(s|seconds?)", unit):
        return "s", _TIMES[match[1]]
    return unit, 1.0


def parse(text: str, where: str) -> list[KernelReport]:
    """The kernels of a report in the order of their launches; ``where`` names it in errors.

    Raises InfrastructureError.
    """
    rows = _rows(text, where)
    first, header = next(rows, (0, []))
    if not header:
        raise InfrastructureError(f"{where}: the report is empty")
    if _NAME not in header:
        raise InfrastructureError(f"{where}:{first}: no column '{_NAME}': not a report of --csv --page raw")
    line, units = next(rows, (0, []))
    if not units:
        raise InfrastructureError(f"{where}:{first}: the report ends after its header")
    name = header.index(_NAME)
    if len(units) == len(header) and (units[name] or not all(_PLAIN.fullmatch(unit) for unit in units)):
        raise InfrastructureError(f"{where}:{line}: a row of units was expected here, after the header")
    _check_length(units, header, f"{where}:{line}")
    kernels = []
    for line, row in rows:
        _check_length(row, header, f"{where}:{line}")
        cells = dict(zip(header, zip(units, row, strict=True), strict=True))
        kernels.append(KernelReport(row[name], f"{where}:{line}", cells))
    if not kernels:
        raise InfrastructureError(f"{where}: the report holds no kernel")
    return kernels


def _rows(text: str, where: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with their line numbers, without ncu's own messages (``==PROF== …``)."""
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        for row in reader:
            if row and not row[0].startswith("=="):
                yield reader.line_num, row
    except csv.Error as error:
        raise InfrastructureError(f"{where}:{reader.line_num}: the file is cut, or no CSV ({error})") from None


def _check_length(row: list[str], header: list[str], where: str) -> None:
    if len(row) != len(header):
        raise InfrastructureError(f"{where}: {len(row)} of {len(header)} columns: the file is cut, or two files in one")
