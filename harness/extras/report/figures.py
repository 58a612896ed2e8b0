"""How figures and strange text are written on a page: one function for each kind, used as filters by the templates."""

from typing import Final

NONE: Final = "\N{EN DASH}"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def number(value: float | None, digits: int = 4) -> str:
    """Significant digits, without an exponent where a person would write none."""
    if value is None:
        return NONE
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+" in text and abs(value) < 1e15 else text


def ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"


def percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def interval(bounds: tuple[float | None, float | None]) -> str:
    low, high = bounds
    return NONE if low is None or high is None else f"[{low:.4f}, {high:.4f}]"


def size(value: float | None) -> str:
    """Bytes in the largest unit that leaves one digit before the point."""
    if value is None:
        return NONE
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.4g} {unit}"
        value /= 1024
    raise AssertionError


def day(moment: str) -> str:
    """A record's time, to the minute, UTC."""
    return f"{moment[:10]} {moment[11:16]}"


def tame(value: object) -> object:
    """A stranger's text with what would not show made to show: controls, marks that turn the direction of text.

    Markup is the templates' own, and stays.
    """
    if type(value) is not str or value.isprintable():
        return value
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in value
    )
