"""The table of a fleet's progress: one row a GPU, drawn anew on a terminal; elsewhere the lines that stay."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.machine.progress import console

COLUMNS = ("host", "GPU", "problem", "done", "left", "last line")


@dataclass(slots=True)
class FleetRow:
    """What one GPU does. ``done`` and ``left`` count iterations of the present problem."""

    host: str
    gpu: str
    problem: str = ""
    done: int = 0
    left: int = 0
    last_line: str = ""


def drawn(rows: list[FleetRow], waiting: int) -> Table:
    """The table; ``waiting`` problems have no GPU yet."""
    table = Table(*COLUMNS, caption=f"{waiting} problems wait", box=None, expand=True)
    table.columns[-1].ratio = 1
    for column in table.columns:
        column.no_wrap = True
    for row in rows:
        counts = (str(row.done), str(row.left)) if row.problem else ("", "")
        table.add_row(*(Text(cell) for cell in (row.host, row.gpu, row.problem, *counts, row.last_line)))
    return table


class FleetDisplay:
    """Shows rows, and lines above them that stay."""

    def __init__(self, live: Live | None) -> None:
        self._live = live

    def show(self, rows: list[FleetRow], waiting: int) -> None:
        if self._live is not None:
            self._live.update(drawn(rows, waiting))

    def line(self, text: str) -> None:
        console.print(text, markup=False)


@contextmanager
def display() -> Iterator[FleetDisplay]:
    if not console.is_terminal:
        yield FleetDisplay(None)
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield FleetDisplay(live)
