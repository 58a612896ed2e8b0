"""How numbers and foreign text are written on a page; the templates use each function as a filter."""

import re
from typing import Final

from jinja2.filters import do_filesizeformat
from markupsafe import Markup

from harness.machine import table

NONE: Final = "\N{EN DASH}"


def number(value: float | None, digits: int = 4) -> str:
    """Significant digits, without an exponent for large numbers."""
    if value is None:
        return NONE
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+" in text and abs(value) < 1e15 else text


def breakable(name: str) -> Markup:
    """A shape key or a name that may break after an underscore, or after a dimension's x."""
    operator, _, rest = name.partition("_")
    parts = re.split("(?<=_)|(?<=[0-9]x)", rest)
    return Markup("<wbr>").join([f"{operator}_", *parts] if rest else [operator])


def ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"


def percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def interval(bounds: tuple[float | None, float | None]) -> str:
    return table.interval(*bounds) or NONE


def error(value: float | None, digits: int = 3) -> str:
    """A trial's error; records hold None if the output was not finite."""
    return "not finite" if value is None else number(value, digits)


def size(value: float | None) -> str:
    """Bytes, in the largest unit with a digit before the point."""
    return NONE if value is None else do_filesizeformat(value, binary=True)


def day(moment: str) -> str:
    """A record's time to the minute, UTC."""
    return f"{moment[:10]} {moment[11:16]}"


def tame(value: object) -> object:
    """Foreign text with controls and direction marks written out; the templates' own Markup stays as it is."""
    if type(value) is not str or value.isprintable():
        return value
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in value
    )
