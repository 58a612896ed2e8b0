"""What an iteration changed: its source and its configuration beside its parent's."""

from dataclasses import dataclass
from difflib import unified_diff
from typing import Final

from harness.authoring.ideas import parse_config

MOST_LINES: Final = 3000  # matching takes quadratic time


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of source: `` `` is in both, ``+`` is new, ``-`` is only in the parent."""

    mark: str
    text: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of CONFIG, as written. ``before`` is the parent's value, None if the parent had none."""

    name: str
    value: str | None
    before: str | None
    changed: bool


def lines(source: str, parent: str | None) -> tuple[SourceLine, ...]:
    """The whole source, with the parent's removed lines at their old places."""
    after = source.splitlines()
    before = after if parent is None else parent.splitlines()
    if len(after) + len(before) > MOST_LINES:
        before = after
    marked = [*unified_diff(before, after, n=MOST_LINES, lineterm="")][3:] or [f" {text}" for text in after]
    return tuple(SourceLine(each[0], each[1:]) for each in marked)


def settings(config: str | None, parent: str | None) -> tuple[Setting, ...]:
    """The values of a recorded CONFIG; without a parent no value counts as changed."""
    now, before = parse_config(config), parse_config(parent)
    found = []
    for name in now | before:
        value, was = (_written(each[name]) if name in each else None for each in (now, before))
        found.append(Setting(name, value, was, parent is not None and value != was))
    return tuple(found)


def _written(value: object) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists nested hundreds deep
        return "too long to show"
