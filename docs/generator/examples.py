"""TileLang's example folders, from what ``tilebench adopt --json`` said of them."""

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
    return (
        f"- **{built} of {len(rows)}** folders have an example that is found and compiles for an H200.\n"
        f"- {found} have one that is found.\n"
        f"- In {fixed} of the {built} each example has inputs of the script's own numbers alone.\n"
        f"- In {several} each is several launches together."
    )


def folders() -> str:
    """One line for each folder."""
    return table.folders(_cases(), "github").rstrip()
