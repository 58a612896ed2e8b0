"""The table of a fleet's progress: one row a GPU, drawn anew on a terminal; elsewhere the lines that stay."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from rich.console import ConsoleDimensions
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.machine.progress import console

COLUMNS: Final[dict[str, dict[str, Any]]] = {
    "host": {},
    "GPU": {"min_width": 3},
    "problem": {"ratio": 2},
    "done": {"min_width": 4},
    "left": {"min_width": 4},
}
HOST: Final = 16  # letters of a name
LAST: Final = "last line"
WIDE: Final = 130  # columns of a terminal that has room for the last line beside the rest
AROUND: Final = 4  # lines of the terminal without a row: the header, the caption, and what was typed


@dataclass(slots=True)
class FleetRow:
    """What one GPU does. ``done`` and ``left`` count what it measures of the present problem."""

    host: str
    gpu: str
    problem: str = ""
    done: int = 0
    left: int = 0
    last_line: str = ""


def drawn(rows: Sequence[FleetRow], waiting: int, size: ConsoleDimensions) -> Table:
    """The table, as large as the terminal; ``waiting`` problems have no GPU yet."""
    wide = size.width >= WIDE
    room = max(1, (size.height - AROUND) // (1 if wide else 2))
    caption = f"{waiting} problems wait" + (f"; {len(rows) - room} more GPUs" if len(rows) > room else "")
    table = Table(caption=caption, box=None, expand=True, pad_edge=False, padding=(0, 2, 0, 0))
    for name, form in COLUMNS.items():
        table.add_column(name if wide or name != "problem" else f"problem, and its {LAST}", no_wrap=True, **form)
    if wide:
        table.add_column(LAST, no_wrap=True, ratio=3)
    for row in rows[:room]:
        counts = (str(row.done), str(row.left)) if row.problem else ("", "")
        last = " ".join(row.last_line.replace(row.problem, "").lstrip(": ").split())
        told = [row.problem, *counts, last] if wide else [f"{row.problem}\n{last}", *counts]
        table.add_row(*map(Text, (_short(row.host), row.gpu, *told)))
    return table


def _short(host: str) -> str:
    """A host's name without its domain; of a long one the end, by which the hosts of a cluster differ."""
    name = host if host[:1].isdigit() else host.partition(".")[0]
    return name if len(name) <= HOST else f"…{name[1 - HOST :]}"


def display() -> AbstractContextManager[Live | None]:
    """What shows the table; None where there is no terminal."""
    return Live(console=console, transient=True, refresh_per_second=4) if console.is_terminal else nullcontext()
