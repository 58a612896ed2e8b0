"""Progress of a run, on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

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

    def doing(self, text: str) -> None:
        self._progress.update(self._task, description=text)

    def finished(self, text: str, *, advance: bool = True) -> None:
        self._progress.console.print(text, markup=False)
        self._progress.update(self._task, advance=1 if advance else 0)


def announce(reporter: Reporter, text: str) -> None:
    """A step of many seconds: without a terminal, which shows the present step, it is a line that stays."""
    reporter.doing(text)
    if not console.is_terminal:
        reporter.finished(text, advance=False)


@contextmanager
def reporting(total: int) -> Iterator[Reporter]:
    """A progress bar on a terminal, plain lines elsewhere."""
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
