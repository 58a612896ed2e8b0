"""What came of examples, one line for each folder."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

from harness.extras.adopt.adoption import AdoptedExample
from harness.machine.table import PLAIN, table

LONGEST: Final = 12  # words of a reason


class FolderRow:
    """The examples of one folder: the first that compiles speaks for it, else the first that is adopted."""

    def __init__(self, folder: str, cases: Sequence[AdoptedExample]) -> None:
        self.folder, self.cases = folder, cases
        self.found = [each for each in cases if each.shape_key]
        self.built = [each for each in cases if each.built]
        self.gpu = self.built[0].gpu if self.built else ""

    @property
    def note(self) -> str:
        """What a reader must know of the judgement; else why there is none, by the most frequent reason."""
        if not self.found:
            reasons = Counter(shown(each.reason or "") for each in self.cases).most_common()
            more = f"; {len(reasons) - 1} other reasons" if len(reasons) > 1 else ""
            return f"{reasons[0][0]} ({reasons[0][1]}){more}"
        if not self.built:
            return f"not compiled: {shown(self.found[0].reason or '')}"
        best = min(self.built, key=lambda each: each.fixed)
        several = f"{best.launches} launches together" if best.launches > 1 else ""
        inputs = f"{best.fixed} of {best.inputs} inputs are the script's own" if best.fixed else ""
        precision = "" if best.wide else "reference in the script's precision"
        limits = "limits by the script's precision" if best.own_limits else ""
        return "; ".join(filter(None, (several, inputs, precision, limits)))


COLUMNS: Final[Mapping[str, Callable[[FolderRow], object]]] = {
    "folder": lambda row: row.folder,
    "tried": lambda row: len(row.cases),
    "found": lambda row: len(row.found),
    "built": lambda row: len(row.built),
    "for": lambda row: row.gpu,
    "note": lambda row: row.note,
}


def shown(reason: str) -> str:
    """A reason's first words, none of them a long one."""
    words = [word for word in reason.split() if len(word) <= 80]
    return " ".join(words[:LONGEST]) + ("…" if len(words) > LONGEST else "")


def rows(cases: Sequence[AdoptedExample]) -> list[FolderRow]:
    """One row a folder, those that compile first."""
    grouped = groupby(sorted(cases, key=lambda each: each.folder), key=lambda each: each.folder)
    found = [FolderRow(folder, list(group)) for folder, group in grouped]
    return sorted(found, key=lambda row: (not row.built, not row.found))


def folders(cases: Sequence[AdoptedExample], table_format: str = PLAIN) -> str:
    return table(rows(cases), COLUMNS, table_format, right=("tried", "found", "built"), wrap={"note": 24}) + "\n"
