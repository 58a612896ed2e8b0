"""Upgrades: what ``versus --build-only --json`` said, kept in ``docs/results/upgrades``, as Markdown.

``python -m docs.generator.upgrades NAME < answer.json`` keeps an answer under a name, without the machine's paths.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from harness.cli.versus import VersusData
from harness.extras.versus.rows import FIGURES, BuildChange, VersusRow
from harness.machine.files import put

KEPT: Final = Path(__file__).resolve().parents[1] / "results" / "upgrades"
STEADY: Final = (BuildChange.SAME, BuildChange.VARIES)
_PATH: Final = r" ?[\[(]?'?(/[\w.+-]+){2,}.*"  # and what follows: the words of a compiler


class KeptRow(msgspec.Struct, frozen=True):
    """A row's figures, old and new, of the kernel with the most instructions."""

    problem: str
    iteration: str
    verdict: BuildChange
    figures: dict[str, tuple[int | None, int | None]]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, row: VersusRow) -> "KeptRow":
        figures = {name: row.figures(field) for name, field in FIGURES.items()}
        notes = tuple(re.sub(_PATH, "…", note) for note in row.notes)
        return cls(row.problem, row.iteration, row.verdict, figures, notes)


class KeptUpgrade(msgspec.Struct, frozen=True):
    """Two releases of TileLang, and what both made of each function or leader."""

    old: str
    new: str
    arch: str
    rows: tuple[KeptRow, ...]


def keep(name: str, answer: bytes) -> None:
    """Write what the generated parts need of an answer."""
    data = msgspec.convert(msgspec.json.decode(answer)["data"], VersusData)
    kept = KeptUpgrade(data.old.tilelang, data.new.tilelang, data.arch, tuple(map(KeptRow.of, data.rows)))
    lines = msgspec.json.format(msgspec.json.encode(kept), indent=1)
    put(KEPT / f"{name}.json", lines + b"\n")


def counts() -> str:
    """How many rows of each comparison have which verdict."""
    head = f"| built | TileLang | {' | '.join(BuildChange)} |\n|---|---|{'---:|' * len(BuildChange)}"
    return "\n".join([head, *(_counted(name, upgrade) for name, upgrade in _upgrades())])


def changes(built: str) -> str:
    """What is not the same, by comparison; rows that fail alike are one line."""
    return "\n\n".join(_changed(upgrade) for name, upgrade in _upgrades() if name.startswith(built))


def _upgrades() -> Iterator[tuple[str, KeptUpgrade]]:
    for path in sorted(KEPT.glob("*.json"), reverse=True):
        yield path.stem, msgspec.json.decode(path.read_bytes(), type=KeptUpgrade)


def _counted(name: str, upgrade: KeptUpgrade) -> str:
    found = Counter(row.verdict for row in upgrade.rows)
    cells = " | ".join(str(found[verdict]) for verdict in BuildChange)
    return f"| {len(upgrade.rows)} {name.partition('-')[0]} | {upgrade.old} to {upgrade.new} | {cells} |"


def _changed(upgrade: KeptUpgrade) -> str:
    head = f"| {upgrade.old} to {upgrade.new} | verdict | {' | '.join(FIGURES)} | what differs |"
    lines = [head, f"|---|---|{'---:|' * len(FIGURES)}---|"]
    alike: Counter[tuple[BuildChange, tuple[str, ...]]] = Counter(
        (row.verdict, row.notes) for row in upgrade.rows if row.verdict not in STEADY
    )
    for row in upgrade.rows:
        number = alike.pop((row.verdict, row.notes), 0)
        if number:
            name = row.iteration.removeprefix("regression_")
            more = f" and {number - 1} more" if number > 1 else ""
            figures = " | ".join(_figure(*pair) for pair in row.figures.values()) if number == 1 else " | " * 3
            notes = "; ".join(row.notes).replace("|", "\\|").replace("<", "&lt;")
            lines.append(f"| `{name}`{more} | {row.verdict} | {figures} | {notes} |")
    return "\n".join(lines)


def _figure(old: int | None, new: int | None) -> str:
    before, after = ("" if each is None else str(each) for each in (old, new))
    return before if before == after else f"{before or '-'} > {after or '-'}"


if __name__ == "__main__":
    keep(sys.argv[1], sys.stdin.buffer.read())
