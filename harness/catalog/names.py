"""Names of iterations, ``iter012_tag``: the one place that writes and reads them."""

import re
from typing import Final

from harness.errors import UsageError

FORM: Final = "iter<NNN>_<tag>"
TAG: Final = "[a-z][a-z0-9_]{1,30}"
LAST_NUMBER: Final = 999
_NAME: Final = re.compile(rf"iter(?P<number>[0-9]{{3}})_(?P<tag>{TAG})", re.ASCII)
_LOOSE: Final = re.compile(r"iter_?([0-9]{1,4})(?![0-9])")
_SHORT: Final = re.compile(r"(?:iter)?(?P<number>[0-9]{1,3})(?P<tag>_[a-z0-9_]*)?", re.ASCII)


def ordinal(number: int) -> str:
    """The part of a name that counts, such as ``iter012``."""
    return f"iter{number:03d}"


def ordinal_in(name: str) -> str:
    """The same part of a whole name."""
    return name.partition("_")[0]


def name_of(number: int, tag: str) -> str:
    return f"{ordinal(number)}_{tag}"


def parsed(name: str) -> tuple[int, str] | None:
    """The number and the tag of a whole name; None for any other text."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match["number"]), match["tag"])


def is_library(name: str) -> bool:
    """Whether a name is that of iteration 0, which calls the library."""
    return name.startswith(f"{ordinal(0)}_")


def wanted(named: str) -> tuple[int, str | None]:
    """The number that a person means by ``3``, ``003`` or ``iter003``, and a name where it is whole.

    Raises UsageError.
    """
    match = _SHORT.fullmatch(named)
    if match is None:
        raise UsageError(f"iteration '{named}' is neither a number such as 3, 003 or iter003 nor a name")
    number, tag = int(match["number"]), match["tag"]
    return number, f"{ordinal(number)}{tag}" if tag else None


def short_number(named: str) -> int | None:
    """The number of ``3``, ``003`` or ``iter003``; None for a text with a tag, or for any other."""
    match = _SHORT.fullmatch(named)
    return None if match is None or match["tag"] else int(match["number"])


def loose_number(text: str) -> int | None:
    """The number within any text, as foreign trees write it: ``iter005``, ``iter_5``, ``timing_iter5``."""
    match = _LOOSE.search(text)
    return None if match is None else int(match[1])


def resembles(file: str, number: int) -> bool:
    """Whether the name of a misnamed file begins as one of this number does."""
    return re.match(rf"iter0*{number}(?![0-9])", file) is not None
