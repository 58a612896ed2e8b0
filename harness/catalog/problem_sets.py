"""Sets of problems: those of a model's step, each with its calls in one step."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.errors import UsageError, meant
from harness.judge.facts.problem import parse_shape_key
from harness.machine.toml import decode, line_of, wrong

SHIPPED_SETS: Final = Path(__file__).with_suffix(".toml")
OWN_SETS: Final = "problems.toml"  # of a repository


class ProblemSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set: what it is of, where its figures come from, what of the step it leaves out, and calls by shape key."""

    what: str = ""
    source: str = ""
    without: str = ""
    calls: Mapping[str, Any] = {}


def problem_sets(root: Path) -> dict[str, ProblemSet]:
    """The shipped sets and a repository's own, by name. Raises UsageError with file and line."""
    found = _read(SHIPPED_SETS)
    if (own := root / OWN_SETS).is_file():
        more = _read(own)
        if taken := sorted(found.keys() & more.keys()):
            raise wrong(own, line_of(own, taken[0]), f"set '{taken[0]}' is shipped already; choose another name")
        found |= more
    return found


def problem_set(root: Path, name: str) -> ProblemSet:
    """The set of a name. Raises UsageError."""
    found = problem_sets(root)
    if name not in found:
        raise UsageError(f"there is no set '{name}'; known: {', '.join(found)}{meant(name, found)}")
    return found[name]


def _read(path: Path) -> dict[str, ProblemSet]:
    found = decode(path, dict[str, ProblemSet])
    for name, each in found.items():
        header = line_of(path, name)
        if not each.calls:
            raise wrong(path, header, f"set '{name}' has no calls")
        for key, weight in each.calls.items():
            line = line_of(path, key, after=header)
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
                raise wrong(path, line, f"{weight!r} calls of {key} are not a number of 0 or more")
            try:
                parse_shape_key(key)
            except UsageError as error:
                raise wrong(path, line, str(error)) from None
    return found
