"""What an audit finds, and why it matters to whoever believes the figures."""

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
    Kind.INPUTS: "inputs that a kernel brings itself can be made to suit it, and are scaled as it pleases",
    Kind.TIMER: "each script's timer measures something else, so that its figures rank with nobody else's",
    Kind.DTYPE: "it computes another problem than its path says",
    Kind.LIBRARY: "the library's speed is recorded as the kernel's",
    Kind.AUTOTUNE: "what ran is not in the source: nobody can run it again",
    Kind.UNREADABLE: "nothing can be said of it",
    Kind.DUPLICATE: "one program counts as several ideas",
    Kind.DISAGREES: "the same program has several figures, and the best of them is luck",
    Kind.NO_SOURCE: "a figure that nobody can check",
    Kind.WRONG_KERNEL: "the evidence is that of another kernel",
}


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong: where, and what. ``line`` is 0 where it is the whole file."""

    kind: Kind
    path: Path
    line: int
    what: str

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}" if self.line else str(self.path)

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.what}"
