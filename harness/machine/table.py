"""Tables for people: as wide as the terminal, and 80 columns where stdout is none."""

import shutil
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import tabulate

from harness.errors import UsageError, meant

tabulate.MIN_PADDING = 0  # by default a header takes two columns more than its text
R = TypeVar("R")
PLAIN: Final = "simple"  # the format that is fitted; programs and pages read the others whole
SHORTEST: Final = 8  # characters of a column that gives way: ``iter003…`` is still a name
_GAP: Final = 2


def width() -> int:
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def check_format(table_format: str) -> None:
    """Raise UsageError for a format that tabulate does not know."""
    if table_format not in tabulate.tabulate_formats:
        raise UsageError(
            f"unknown table format '{table_format}'; known: {', '.join(tabulate.tabulate_formats)}"
            f"{meant(table_format, tabulate.tabulate_formats)}"
        )


def table(
    rows: Iterable[R],
    columns: Mapping[str, Callable[[R], object]],
    table_format: str = PLAIN,
    *,
    right: Collection[str] = (),
    optional: Sequence[str] = (),
    cut: Mapping[str, int] | None = None,
    wrap: Mapping[str, int] | None = None,
) -> str:
    """A header and the rows; ``right`` names the columns that are aligned right.

    ``cut`` names columns of long words, and to how many characters they may be shortened before ``optional`` columns
    go, the first one first; ``wrap`` says so of columns of text. Where a plain table is still too wide, text is
    wrapped. An optional column without any content goes at once. Raises UsageError for an unknown format.
    """
    cut = cut or {}
    check_format(table_format)
    cells = {name: [str(fill(row)) for row in held] for held in [list(rows)] for name, fill in columns.items()}
    widths: list[int | None] | None = None
    if table_format == PLAIN:
        cells = {name: each for name, each in cells.items() if name not in optional or any(each)}
        _leave_out(cells, optional, {**cut, **(wrap or {})})
        _shorten(cells, cut)
        widths = _wrapped(cells, right)
    lines = list(zip(*cells.values(), strict=True))
    options: dict[str, Any] = {"maxcolwidths": widths} if widths and lines else {}
    if lines:
        options["colalign"] = ["right" if name in right else "left" for name in cells]
    return tabulate.tabulate(lines, list(cells), table_format, disable_numparse=True, **options)


def paragraph(text: str, indent: str = "") -> str:
    """Text broken into lines of the terminal's width; all lines but the first are indented."""
    return "\n".join(textwrap.wrap(text, width(), subsequent_indent=indent, break_on_hyphens=False))


def footnotes(notes: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Each row's notes below a table: every note once, after the names of its rows."""
    rows = list(notes)
    names: dict[str, list[str]] = {}
    for name, found in rows:
        for note in found:
            names.setdefault(note, []).append(name)
    everyone = len(rows) > 1 and [name for name, _ in rows]
    return "\n".join(
        paragraph(f"{'all' if found == everyone else ', '.join(found)}: {note}", "  ") for note, found in names.items()
    )


def figure(value: float | None, form: str = ".4g") -> str:
    """A number in a format; nothing where there is none."""
    return "" if value is None else format(value, form)


def counted(number: int, noun: str) -> str:
    """A number and a noun, which takes an s unless there is one."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


class Bounded(Protocol):
    """A ratio with its 95% interval, such as a measurement or a row."""

    @property
    def ratio(self) -> float | None: ...

    @property
    def ratio_low(self) -> float | None: ...

    @property
    def ratio_high(self) -> float | None: ...


def bounded(found: Bounded) -> str:
    return with_interval(found.ratio, found.ratio_low, found.ratio_high)


def with_interval(ratio: float | None, low: float | None, high: float | None) -> str:
    """A ratio and the bounds of its interval; nothing where there are none."""
    return f"{figure(ratio, '.4f')} {interval(low, high)}".strip()


def interval(low: float | None, high: float | None) -> str:
    """The bounds of a ratio; nothing where there are none."""
    return "" if low is None or high is None else f"[{low:.4f}, {high:.4f}]"


def _natural(cells: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The characters of each column's widest line, its header included."""
    return {
        name: max(len(line) for text in (name, *held) for line in (text.splitlines() or [""]))
        for name, held in cells.items()
    }


def _excess(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1) - width()


def _leave_out(cells: dict[str, list[str]], optional: Sequence[str], least: Mapping[str, int]) -> None:
    widths = {name: min(each, max(least.get(name, each), len(name))) for name, each in _natural(cells).items()}
    for name in optional:
        if name in widths and _excess(widths) > 0:
            del widths[name], cells[name]


def _shorten(cells: dict[str, list[str]], cut: Iterable[str]) -> None:
    widths = _natural(cells)
    for name in cut:
        if name in cells and (excess := _excess(widths)) > 0:
            most = max(SHORTEST, len(name), widths[name] - excess)
            cells[name] = [each if len(each) <= most else f"{each[: most - 1]}…" for each in cells[name]]
            widths[name] = min(widths[name], most)


def _wrapped(cells: Mapping[str, Sequence[str]], right: Collection[str]) -> list[int | None] | None:
    """The most characters of a line of each column; the widest columns of text give way."""
    widths = _natural(cells)
    wrapped: dict[str, int] = {}
    while _excess(widths) > 0:
        text = [name for name in cells if name not in right and widths[name] > max(SHORTEST, len(name))]
        if not text:
            break
        widest = max(text, key=lambda name: widths[name])
        widths[widest] = wrapped[widest] = widths[widest] - 1
    return [wrapped.get(name) for name in cells] if wrapped else None
