"""Pages and their generated parts: text between ``<!-- generated: NAME -->`` and ``<!-- end -->``."""

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final

from docs.generator import api, boards, commands, examples, records, rooms, upgrades

ROOT: Final = Path(__file__).resolve().parents[2]
GPUS: Final = ("h200", "h100")

Part = Callable[[], str]
_OF_A_GPU: Final[dict[str, Callable[[str], str]]] = {
    "facts": boards.facts,
    "leaders": boards.leaders_table,
    "headline": boards.headline,
    "ladders": boards.ladders,
    "staleness": boards.staleness,
}
PARTS: Final[dict[str, Part]] = {
    "board": partial(boards.summary_board, GPUS[0]),
    "rooms": rooms.drawing,
    "folders": rooms.folders,
    "commands": commands.reference,
    "json": commands.json,
    "records": records.reference,
    "columns": records.columns,
    "operators": records.operators,
    "opponents": records.opponents,
    "api": api.reference,
    "upgrades": upgrades.counts,
    "upgraded examples": partial(upgrades.changes, "examples"),
    "upgraded leaders": partial(upgrades.changes, "leaders"),
    "examples": examples.summary,
    "example folders": examples.folders,
    **{f"{name} {gpu}": partial(part, gpu) for gpu in GPUS for name, part in _OF_A_GPU.items()},
}
# A row is stale as soon as someone edits the judge, and fresh again only after a GPU has measured it. A check that
# compared this sentence would fail on every edit of the judge, where it cannot be mended. So `make docs` writes the
# sentence from the data, and --check leaves it out. No page keeps a wrong sentence for long: measuring changes
# figures, which are compared, so `make docs` has to run, and it renews the sentence too.
NOT_COMPARED: Final = frozenset(f"staleness {gpu}" for gpu in GPUS)

_PART: Final = re.compile(r"(<!-- generated: (?P<name>[a-z0-9 ]+) -->\n)(?P<text>.*?)(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Every page of the documentation, relative to the checkout."""
    found = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT) for path in found]


def parts(page: Path) -> list[str]:
    """The names of a page's generated parts."""
    return [found["name"] for found in _PART.finditer((ROOT / page).read_text())]


def outdated(page: Path) -> Iterator[str]:
    """One line for each generated part that is not what the code and the records give."""
    for found in _PART.finditer((ROOT / page).read_text()):
        name = found["name"]
        if name not in NOT_COMPARED and found["text"] != _generated(name):
            yield f"{page}: the part '{name}' is out of date"


def update(page: Path) -> bool:
    """Write the page's generated parts anew; whether the page changed."""
    path = ROOT / page
    text = path.read_text()
    made = _PART.sub(lambda found: found[1] + _generated(found["name"]) + found[4], text)
    if made != text:
        path.write_text(made)
    return made != text


@cache
def _generated(name: str) -> str:
    if name not in PARTS:
        raise LookupError(f"no generated part is named '{name}'; known: {', '.join(PARTS)}")
    text = PARTS[name]().strip()
    return f"\n{text}\n\n" if text else "\n"
