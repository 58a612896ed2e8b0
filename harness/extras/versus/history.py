"""What the records say of every two environments that were measured against each other."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from harness.extras.versus.pairing import PairedRow, beside_library, row
from harness.extras.versus.shift import error_of
from harness.records.versus import MatchSide, VersusRecord


@dataclass(frozen=True)
class Upgrade:
    """Two environments, and the newest row of each iteration, the slowest first and those without a ratio last."""

    old: MatchSide
    new: MatchSide
    recorded_at: str
    rows: tuple[PairedRow, ...]

    @property
    def title(self) -> str:
        """What differs, such as ``TileLang 0.1.14 > 0.1.15``; else what the user called them."""
        named = {"TileLang": "tilelang", "torch": "torch", "Python": "python"}
        pairs = {name: (getattr(self.old, field), getattr(self.new, field)) for name, field in named.items()}
        told = [f"{name} {before} > {after}" for name, (before, after) in pairs.items() if before != after]
        return ", ".join(told) or f"{self.old.name} > {self.new.name}"


def upgrades(records: Iterable[VersusRecord]) -> list[Upgrade]:
    """Every two environments, the newest first."""
    pairs: dict[tuple[str, str], list[VersusRecord]] = {}
    for record in records:
        pairs.setdefault((record.old.sha256, record.new.sha256), []).append(record)
    return sorted(map(_upgrade, pairs.values()), key=lambda each: each.recorded_at, reverse=True)


def _upgrade(records: list[VersusRecord]) -> Upgrade:
    name = attrgetter("key")
    last = max(records, key=lambda each: each.recorded_at)
    measured = [_newest(list(group)) for _, group in groupby(sorted(records, key=name), name)]
    error = error_of(sum(found[0].measurement is not None for found in measured))
    rows = beside_library([row(found, error) for found in measured])
    ordered = sorted(rows, key=lambda each: (each.ratio is None, each.ratio or 0))
    return Upgrade(last.old, last.new, last.recorded_at, tuple(ordered))


def _newest(records: list[VersusRecord]) -> list[VersusRecord]:
    """The newest measurement of an iteration, and the one with the environments swapped that followed it."""
    place = max((at for at, each in enumerate(records) if not each.swapped), default=0)
    first = records[place]
    source = first.source_sha256, first.families_sha256
    swapped = [each for each in records[place + 1 :] if (each.source_sha256, each.families_sha256) == source]
    return [first, *swapped[-1:]]
