"""The findings of an audit, and why each kind matters."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, Self

import msgspec

from harness.errors import printable
from harness.machine.table import paragraph, table

SHOWN: Final = 10  # findings of one kind; the others are counted


class Kind(StrEnum):
    """What is wrong; ``why`` it matters."""

    why: str

    def __new__(cls, value: str, why: str) -> Self:
        made = str.__new__(cls, value)
        made._value_, made.why = value, why
        return made

    TOLERANCE = "tolerance", "a wrong result can pass"
    INPUTS = "own inputs", "a kernel can be made to suit inputs that its own script makes"
    TIMER = "own timer", "each script's timer measures something else, so its figures rank with no other script's"
    DTYPE = "dtype", "it computes another problem than its path says"
    LIBRARY = "library call", "the library's speed is recorded as the kernel's"
    AUTOTUNE = "not pinned", "the source does not say what ran, so it cannot run again"
    UNREADABLE = "unreadable", "the audit can say nothing of it"
    DUPLICATE = "duplicate", "one program counts as several ideas"
    DISAGREES = "repeats disagree", "the same program has several figures, and the best of them is luck"
    NO_SOURCE = "no source", "the figure cannot be checked"
    WRONG_KERNEL = "wrong kernel", "the profile is of another kernel"
    UNSYNCHRONISED = "no synchronisation", "a launch returns before the kernel ends, so the time is the host's"
    COLD = "no warm-up", "the first call also compiles, loads and raises the clocks"
    COMPILATION = "compilation timed", "the time is the compiler's, not the kernel's"
    CACHED = "inputs in cache", "no input comes from memory, as it does where a kernel is used"
    CONSTANT = "constant inputs", "equal values need less power, so the clocks are higher than with real data"
    BASELINE = "unequal baseline", "the baseline does other work than the kernel, so the ratio means nothing"
    MINIMUM = "best of many", "the fastest of many runs is luck; a median can be repeated"
    FLOPS = "wrong operations", "the rate is off by that factor"
    ITSELF = "compared with itself", "a comparison that cannot fail"
    BLIND = "blind comparison", "on equal values a kernel with wrong indices passes too"
    UNUSED = "verdict unused", "a wrong result is found, and nothing follows"
    UNPROVED = "unproved pass", "it says that it passed, and nothing was compared"


class AuditFinding(msgspec.Struct, frozen=True):
    """One thing that is wrong, and where; ``line`` is 0 for a whole file."""

    kind: Kind
    path: Path
    line: int
    what: str

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}" if self.line else str(self.path)

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.what}"


def summary(findings: Sequence[AuditFinding]) -> list[tuple[str, int, int, str]]:
    """By kind, the most frequent first: the number of findings, of files, and why it matters."""
    counted = Counter(finding.kind for finding in findings)
    files = {kind: len({each.path for each in findings if each.kind is kind}) for kind in counted}
    return [(kind.value, count, files[kind], kind.why) for kind, count in counted.most_common()]


def text(findings: Sequence[AuditFinding], *, most: int | None = SHOWN) -> str:
    """The counts, then the findings by kind, at most ``most`` of each."""
    rows = summary(findings)
    names = ("what", "findings", "files", "why it matters")
    columns = {name: itemgetter(place) for place, name in enumerate(names)}
    parts = [table(rows, columns, right=names[1:3])]
    order = {kind: place for place, (kind, *_) in enumerate(rows)}
    ordered = sorted(findings, key=lambda each: order[each.kind.value])
    for kind, group in groupby(ordered, lambda each: each.kind):
        of_kind = list(group)
        left = len(of_kind) - len(of_kind[:most])
        more = [f"  and {left} more; --all shows them"] if left else []
        parts.append("\n".join([f"{kind}:", *_lines(of_kind[:most]), *more]))
    return "\n\n".join(parts)


def _lines(findings: Iterable[AuditFinding]) -> Iterator[str]:
    """Each folder once, and below it a line for each finding."""
    for folder, group in groupby(findings, lambda each: each.path.parent):
        relative = os.path.relpath(folder)
        yield paragraph(printable(f"  {folder if relative.startswith('..') else relative}/"), "    ")
        for each in group:
            yield paragraph(printable(f"    {Path(each.where).name}: {each.what}"), "      ")
