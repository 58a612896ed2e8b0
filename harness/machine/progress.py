"""Progress of a run, on stderr."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

FIRST_ESTIMATE: Final = 3  # the first ones take part of the start with them
PAUSE_S: Final = 60.0  # between two lines that say how far a run is, where no terminal shows a bar

console = Console(stderr=True, highlight=False, soft_wrap=True)


class Reporter(Protocol):
    """Takes the events of a run."""

    def doing(self, text: str) -> None:
        """The present step."""

    def finished(self, text: str, *, advance: bool = True) -> None:
        """One line that stays."""


class Quiet:
    """Reports nothing, for callers that need only the records."""

    def doing(self, text: str) -> None: ...

    def finished(self, text: str, *, advance: bool = True) -> None: ...


class _Live:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=total or None)
        self._told_s = time.monotonic()

    def doing(self, text: str) -> None:
        self._progress.update(self._task, description=text)

    def finished(self, text: str, *, advance: bool = True) -> None:
        self._progress.console.print(text, markup=False)
        self._progress.update(self._task, advance=1 if advance else 0)
        if advance and self._progress.disable and time.monotonic() >= self._told_s + PAUSE_S:
            self._tell()

    def _tell(self) -> None:
        (task,) = self._progress.tasks
        if task.total is not None and task.completed < task.total:
            self._told_s = time.monotonic()
            self._progress.console.print(how_far(int(task.completed), int(task.total), task.elapsed or 0.0))


def how_far(done: int, total: int, spent_s: float) -> str:
    """How much of a run is done, and from the third on how long the rest takes if it goes on so."""
    if done < FIRST_ESTIMATE:
        return f"{done} of {total} done"
    left_s = spent_s / done * (total - done)
    left = f"{left_s:.0f} s" if left_s < 100 else f"{left_s / 60:.0f} min"
    return f"{done} of {total} done; about {left} left"


def announce(reporter: Reporter, text: str) -> None:
    """A step of many seconds: without a terminal, which shows the present step, it is a line that stays."""
    reporter.doing(text)
    if not console.is_terminal:
        reporter.finished(text, advance=False)


@contextmanager
def reporting(total: int) -> Iterator[Reporter]:
    """A progress bar on a terminal; elsewhere plain lines, of which one a minute says how far the run is."""
    with Progress(
        SpinnerColumn(),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield _Live(progress, total)
