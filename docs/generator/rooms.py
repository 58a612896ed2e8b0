"""The rooms of ``harness/``, from the imports: what the architecture page draws."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

from tests.harness.test_structure import MODULES, imports, room_of

ROOT: Final = Path(__file__).resolve().parents[2]
# Every room may import these, or they only start the program or write its pages: their arrows would say nothing.
HIDDEN: Final = frozenset({"errors", "harness", "__main__", "docs"})


@cache
def arrows() -> dict[str, frozenset[str]]:
    """For each room the rooms that its modules import."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        if short(module) not in HIDDEN:
            found[short(module)] |= {short(each) for each in imports(module)} - {short(module), *HIDDEN}
    return {room: frozenset(others) for room, others in found.items()}


def drawing() -> str:
    """A Mermaid diagram: an arrow from a room to each room that it imports, without the detours."""
    drawn = [
        f'    {_node(room)}["{room}"] --> {_node(other)}["{other}"]'
        for room, others in sorted(arrows().items())
        for other in sorted(others)
        if not any(other in _reached(between) for between in others - {other})
    ]
    return "\n".join(["```mermaid", "flowchart TD", *drawn, "```"])


def folders() -> str:
    """Every folder of ``harness/``, with the first sentence of its docstring."""
    lines = ["| folder | what it holds |", "|---|---|"]
    paths = sorted((ROOT / "harness").rglob("__init__.py"))
    return "\n".join([*lines, *(f"| `{path.parent.relative_to(ROOT)}/` | {_summary(path)} |" for path in paths)])


def _summary(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0].replace("``", "`")


@cache
def _reached(room: str) -> frozenset[str]:
    """All rooms behind a room's arrows."""
    reached: set[str] = set()
    waiting = [room]
    while waiting:
        found = arrows()[waiting.pop()] - reached
        reached |= found
        waiting += found
    return frozenset(reached)


def short(module: str) -> str:
    """The room of a module, without ``harness.``."""
    room = room_of(module)
    return room.removeprefix("harness.") if room.startswith("harness.") else room.partition(".")[0]


def _node(room: str) -> str:
    return room.replace(".", "_")
