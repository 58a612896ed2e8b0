"""What versus prints: a table for a terminal, or Markdown for a comment on a pull request."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from harness.extras.versus.environment import PythonEnvironment
from harness.extras.versus.pairing import PairedRow
from harness.extras.versus.rows import FIGURES, STEADY, BuildChange, VersusRow
from harness.extras.versus.shift import Shift
from harness.machine.table import PLAIN, figure, footnotes, interval, paragraph, table

GITHUB_DIFF_CHARACTERS: Final = 50_000  # a comment takes 65,536
NumberedRow = tuple[int, VersusRow]


def text(rows: Sequence[VersusRow], old: PythonEnvironment, new: PythonEnvironment, arch: str) -> str:
    """The rows that are not the same, what differs in each, and their diffs."""
    changed = [row for row in rows if row.verdict not in STEADY]
    parts = [paragraph(each) for each in headline(rows, old, new, arch)]
    if changed:
        numbered = list(enumerate(changed, start=1))
        named = table(numbered, columns(), right=["#", *FIGURES], cut={"problem": 20, "iteration": 14})
        parts += ["", named, "", *notes(numbered)]
    parts += [f"\n{row.problem} {row.iteration}\n{row.diff}" for row in changed if row.diff]
    return "\n".join(parts)


def markdown(rows: Sequence[VersusRow], old: PythonEnvironment, new: PythonEnvironment, arch: str) -> str:
    """The same for GitHub: the table open, what differs folded, and diffs as far as a comment holds them."""
    changed = [row for row in rows if row.verdict not in STEADY]
    first, *more = headline(rows, old, new, arch)
    parts = [f"**{first}**", "", *more]
    if changed:
        parts += ["", table(enumerate(changed, start=1), columns(), "github", right=["#", *FIGURES])]
    left = GITHUB_DIFF_CHARACTERS
    for row in changed:
        shown = (row.diff or "")[: max(0, left)]
        left -= len(shown)
        cut = "\n(the rest is cut)" if len(shown) < len(row.diff or "") else ""
        fence = f"\n```diff\n{shown}{cut}\n```\n" if row.diff else ""
        told = "".join(f"\n- {note}" for note in row.notes)
        name = f"<summary>{row.problem} {row.iteration}: {row.verdict}</summary>"
        parts += ["", f"<details>{name}\n{told}\n{fence}\n</details>"]
    return "\n".join(parts)


def headline(rows: Sequence[VersusRow], old: PythonEnvironment, new: PythonEnvironment, arch: str) -> list[str]:
    """The two environments, and how many rows have which verdict."""
    return [f"{described(old)} > {described(new)}, {arch}: {counts(rows, BuildChange)}", *moved(old, new)]


def counts(rows: Sequence[VersusRow | PairedRow], verdicts: Iterable[str]) -> str:
    """How many rows have which verdict."""
    found = Counter[str](row.verdict for row in rows)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in verdicts if found[verdict]) or "no rows"


def described(environment: PythonEnvironment) -> str:
    return f"TileLang {environment.tilelang}, torch {environment.torch}"


def moved(old: PythonEnvironment, new: PythonEnvironment) -> list[str]:
    """The other packages that differ between both, in one line."""
    names = sorted({*old.versions, *new.versions} - {"tilelang", "torch"})
    pairs = ((name, old.versions.get(name, "none"), new.versions.get(name, "none")) for name in names)
    words = [f"{name} {before} > {after}" for name, before, after in pairs if before != after]
    if old.python_version != new.python_version:
        words.insert(0, f"Python {old.python_version} > {new.python_version}")
    shown = ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "")
    return [f"Also different: {shown}."] if words else []


def notes(rows: Sequence[NumberedRow]) -> list[str]:
    """Each note once, after the numbers of its rows."""
    found: dict[str, list[int]] = {}
    for number, row in rows:
        for note in row.notes:
            found.setdefault(note, []).append(number)
    return [paragraph(f"{_ranges(numbers)}: {note}", "  ") for note, numbers in found.items()]


def _ranges(numbers: Sequence[int]) -> str:
    """``1-3, 5`` for 1, 2, 3, 5."""
    runs = ([number for _, number in run] for _, run in groupby(enumerate(numbers), lambda each: each[1] - each[0]))
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def columns() -> dict[str, Callable[[NumberedRow], object]]:
    """A figure that changed is shown as ``old>new``."""
    figures = {title: partial(_figure, name=name) for title, name in FIGURES.items()}
    return {
        "#": lambda numbered: numbered[0],
        "problem": lambda numbered: numbered[1].problem,
        "iteration": lambda numbered: numbered[1].iteration,
        "code": lambda numbered: numbered[1].verdict,
        **figures,
    }


def _figure(numbered: NumberedRow, name: str) -> str:
    before, after = ("" if each is None else str(each) for each in numbered[1].figures(name))
    return before if before == after else f"{before or '-'}>{after or '-'}"


def pairs(rows: Sequence[PairedRow], form: str = PLAIN) -> str:
    """All rows that have a ratio or a fault: those without a ratio first, then the slowest, and why below."""
    shown = sorted((row for row in rows if row.listed), key=lambda row: (row.ratio is not None, row.ratio or 0))
    made = table(
        shown,
        {
            "problem": lambda row: row.problem,
            "iteration": lambda row: row.iteration,
            "verdict": lambda row: row.verdict.value,
            "old/new": lambda row: figure(row.ratio, ".4f"),
            "interval": lambda row: interval(row.ratio_low, row.ratio_high),
            "to library": lambda row: figure(row.to_library, ".4f"),
        },
        form,
        right=("old/new", "to library"),
    )
    below = footnotes((row.iteration, filter(None, [row.reason])) for row in shown)
    same = sum(row.identical for row in rows)
    told = counts(rows, Shift) + (f" ({same} with the same code)" if same else "")
    return "\n\n".join(filter(None, (told, made if shown else "", below)))
