"""Tables of the extras: each column's header beside what fills its cells."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from tabulate import tabulate

R = TypeVar("R")


def table(
    rows: Iterable[R],
    columns: Mapping[str, Callable[[R], object]],
    table_format: str = "simple",
    *,
    right: Collection[str] = (),
    widths: Mapping[str, int] | None = None,
) -> str:
    """One line a row. ``right`` names the columns that are aligned right, ``widths`` gives the most characters."""
    cells = [[fill(row) for fill in columns.values()] for row in rows]
    options: dict[str, Any] = {"maxcolwidths": [widths.get(name) for name in columns]} if widths and cells else {}
    if right and cells:
        options["colalign"] = ["right" if name in right else "left" for name in columns]
    return tabulate(cells, list(columns), table_format, disable_numparse=True, **options)


def figure(value: float | None, form: str = ".4g") -> str:
    """A number in a format; nothing where there is none."""
    return "" if value is None else format(value, form)


def interval(low: float | None, high: float | None) -> str:
    """The bounds of a ratio; nothing where there are none."""
    return "" if low is None or high is None else f"[{low:.4f}, {high:.4f}]"
