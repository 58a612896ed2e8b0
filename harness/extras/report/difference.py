"""What an iteration changed: its source and its configuration beside its parent's."""

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal

from harness.authoring.ideas import parse_config

MOST_LINES: Final = 3000  # matching takes the square of it


@dataclass(frozen=True, slots=True)
class Line:
    """One line of source: as in the parent, new, or only in the parent."""

    mark: Literal[" ", "+", "-"]
    text: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of CONFIG, as written; ``before`` is its parent's, None where that had none."""

    name: str
    value: str | None
    before: str | None
    changed: bool


def lines(source: str, parent: str | None) -> tuple[Line, ...]:
    """The whole source, with the parent's lines that went where they stood."""
    after = source.splitlines()
    before = after if parent is None else parent.splitlines()
    if len(after) + len(before) > MOST_LINES:
        before = after
    found: list[Line] = []
    for tag, start, end, begin, stop in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [Line(" ", text) for text in after[begin:stop]]
            continue
        found += [Line("-", text) for text in before[start:end]]
        found += [Line("+", text) for text in after[begin:stop]]
    return tuple(found)


def settings(config: str | None, parent: str | None) -> tuple[Setting, ...]:
    """CONFIG as a record holds it, value by value; without a parent nothing counts as changed."""
    now, before = parse_config(config), parse_config(parent)
    names = list(dict.fromkeys([*now, *(before if parent is not None else ())]))
    found = []
    for name in names:
        value, was = (_written(each[name]) if name in each else None for each in (now, before))
        found.append(Setting(name, value, was, parent is not None and value != was))
    return tuple(found)


def _written(value: object) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list in a list in a list
        return "too long to show"
