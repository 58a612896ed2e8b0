"""TileLang's example folders, from what ``tilebench adopt --json`` said of them."""

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.extras.adopt import table
from harness.extras.adopt.adoption import AdoptedExample

FILE: Final = Path(__file__).resolve().parents[2] / "docs" / "results" / "tilelang-examples.json"


@cache
def _cases() -> list[AdoptedExample]:
    envelope: dict[str, Any] = msgspec.json.decode(FILE.read_bytes())
    return msgspec.convert(envelope["data"], list[AdoptedExample])


def summary() -> str:
    """The folders by what came of them."""
    rows = table.rows(_cases())
    built, found = sum(bool(row.built) for row in rows), sum(bool(row.found) for row in rows)
    fixed = sum(bool(row.built) and all(each.fixed for each in row.built) for row in rows)
    several = sum(bool(row.built) and all(each.launches > 1 for each in row.built) for row in rows)
    each_gpu = ", ".join(f"{count} for {key}" for key, count in Counter(row.gpu for row in rows if row.gpu).items())
    return (
        f"- **{built} of {len(rows)}** folders have an example that is found and compiles: {each_gpu}.\n"
        f"- {found} have one that is found.\n"
        f"- In {fixed} of the {built} each example has inputs of the script's own numbers alone.\n"
        f"- In {several} each is several launches together."
    )


def folders() -> str:
    """One line for each folder, its cells no wider than their text."""
    lines = [list(table.COLUMNS), ["---"] * len(table.COLUMNS)]
    lines += [[str(cell(row)) for cell in table.COLUMNS.values()] for row in table.rows(_cases())]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
