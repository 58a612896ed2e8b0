"""The findings of an audit, and why each kind matters."""

from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec


class Kind(StrEnum):
    TOLERANCE = "tolerance"
    INPUTS = "own inputs"
    TIMER = "own timer"
    DTYPE = "dtype"
    LIBRARY = "library call"
    AUTOTUNE = "not pinned"
    UNREADABLE = "unreadable"
    DUPLICATE = "duplicate"
    DISAGREES = "repeats disagree"
    NO_SOURCE = "no source"
    WRONG_KERNEL = "wrong kernel"


WHY: Final = {
    Kind.TOLERANCE: "a wrong result can pass",
    Kind.INPUTS: "a kernel can be made to suit inputs that its own script makes",
    Kind.TIMER: "each script's timer measures something else, so its figures rank with no other script's",
    Kind.DTYPE: "it computes another problem than its path says",
    Kind.LIBRARY: "the library's speed is recorded as the kernel's",
    Kind.AUTOTUNE: "the source does not say what ran, so it cannot run again",
    Kind.UNREADABLE: "the audit can say nothing of it",
    Kind.DUPLICATE: "one program counts as several ideas",
    Kind.DISAGREES: "the same program has several figures, and the best of them is luck",
    Kind.NO_SOURCE: "the figure cannot be checked",
    Kind.WRONG_KERNEL: "the profile is of another kernel",
}


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
