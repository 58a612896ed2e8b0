"""Where each child process begins. The parent imports this module, and never imports torch."""

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem

OUTPUT_FILE: Final = "output.txt"  # in a contestant's scratch folder


@dataclass(frozen=True, slots=True)
class Brief:
    """The instructions of a child. ``path`` and ``scratch`` are the contestant's; ``core`` pins a CPU measurement."""

    root: Path
    problem: Problem
    gpu: Gpu
    core: int | None
    path: Path = Path()
    scratch: Path = Path()


def run_contestant(brief: Brief, referee: Connection, parent: Connection) -> None:
    from harness.judge.child.contestant import contestant

    contestant(brief, parent, referee)


def run_baseline(brief: Brief, referee: Connection, parent: Connection) -> None:
    from harness.judge.child.baseline_process import baseline

    baseline(brief, parent, referee)


def run_referee(brief: Brief, parent: Connection) -> None:
    from harness.judge.child.referee import referee

    referee(brief, parent)
