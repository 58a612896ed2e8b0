"""Equal shares of the problems, for machines that know nothing of each other."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from harness.errors import NothingToDo, UsageError

_FORM: Final = re.compile(r"([0-9]{1,6})/([0-9]{1,6})", re.ASCII)
_LATE: Final = "copy_"  # a run writes the copies that it lacks, and these may move no other problem to another share


@dataclass(frozen=True, slots=True)
class Share:
    """One of ``of`` shares, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Share":
        """The share that ``2/8`` names. Raises UsageError."""
        found = _FORM.fullmatch(text)
        number, of = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= of:
            raise UsageError(f"--share {text} is not a share such as 2/8, the second of eight")
        return cls(number, of)

    def of_names(self, names: Iterable[str]) -> frozenset[str]:
        """The names of this share: dealt in the order of their hashes, so all shares are equal to within one name.

        Raises NothingToDo where there are fewer names than shares, and none is left for this one.
        """
        dealt = sorted(set(names), key=lambda name: (name.startswith(_LATE), hashlib.sha256(name.encode()).digest()))
        own = frozenset(dealt[self.number - 1 :: self.of])
        if dealt and not own:
            raise NothingToDo(f"share {self} is empty: only {len(dealt)} problems are selected")
        return own

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"
