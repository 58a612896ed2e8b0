"""The instructions of a child process."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem

OUTPUT_FILE: Final = "output.txt"  # in the folder of a child, all that it prints
STACK_FILE: Final = "stack.txt"  # there too, the stack of a crash, or of a hang that STACK_SIGNAL interrupts
STACK_SIGNAL: Final = signal.SIGUSR1


@dataclass(frozen=True, slots=True)
class Brief:
    """The instructions of a child. ``core`` is where a CPU measures; a contestant is pinned there once it is built.

    ``path`` is the file that a side runs; the referee has none. ``scratch`` is of a contestant or an opponent.
    ``opponent`` is the name of an opponent in that file. ``launches`` says that launches will follow the build.
    """

    root: Path
    problem: Problem
    gpu: Gpu
    core: int | None
    path: Path = Path()
    scratch: Path = Path()
    opponent: str = ""
    launches: bool = False
