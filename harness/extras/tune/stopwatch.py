"""A process of the screen: compiles candidates, and times their launches when it has the device to itself."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from harness.errors import compiler_complaint, described, printable
from harness.extras.tune.child import keep_to, quieten
from harness.extras.tune.space import frozen
from harness.extras.tune.survey import Entry
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.child.inputs import inputs
from harness.judge.messages import Message, receive, send

BLOCK_MS: Final = 10.0
MOST_LAUNCHES: Final = 2048  # of a block
SETS_BYTES: Final = 256 << 20  # of the tensors that launches take in turns: several times what an L2 holds
MOST_SETS: Final = 32
ESTIMATES: Final = 3


class Compile(Message, frozen=True):
    """Compile a candidate; ``number`` names it from now on."""

    number: int
    entry: Entry


class Compiled(Message, frozen=True):
    """It compiled, or why not."""

    reason: str = ""


class Take(Message, frozen=True):
    """Time one block of a candidate's launches; the device is yours."""

    number: int


class Taken(Message, frozen=True):
    """ms of a launch, or why there is none."""

    launch_ms: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Posted:
    """What the process is told at its start; what it compiles and prints goes to ``folder``."""

    brief: Brief
    folder: Path


def run_stopwatch(posted: Posted, parent: Connection) -> None:
    """Body of the process, until the parent hangs up."""
    with child_body(posted.brief, parent):
        output = keep_to(posted.folder)
        quieten()
        watch = Stopwatch(posted.brief, output)
        while True:
            order = receive(parent, Compile | Take)
            send(parent, watch.compile(order) if isinstance(order, Compile) else watch.take(order))


class Stopwatch:
    """Candidates that have compiled, and the tensors that all are timed on."""

    def __init__(self, brief: Brief, output: Path) -> None:
        import tilelang
        import torch

        tilelang.disable_cache()
        self.problem, self.gpu, self.output = brief.problem, brief.gpu, output
        self.device = torch.device("cpu" if brief.gpu.is_cpu else "cuda")
        # Before any candidate is timed: a new context would be felt by the one that another process times.
        # Several sets, so that no launch finds its inputs in L2 because of the one before.
        count = max(1, min(MOST_SETS, SETS_BYTES // brief.problem.bytes))
        self.sets = [self._set() for _ in range(count)]
        self.kernels: dict[int, Callable[..., None]] = {}

    def compile(self, order: Compile) -> Compiled:
        """Compile it as its iteration would; the device is not touched."""
        from harness.extras.tune.autotuner import program_of
        from harness.judge.child.kernel import build_kernel
        from harness.judge.child.serve import explain

        program = program_of(order.entry.family, self.problem)
        config = frozen(order.entry.config)
        said = self.output.stat().st_size
        try:
            kernel = build_kernel(lambda problem: program(**config), self.problem, self.gpu, self.device)
        except Exception as error:
            return Compiled(printable(compiler_complaint(self._output(said)) or explain(error), 300))
        self.kernels[order.number] = kernel.launch
        return Compiled()

    def _output(self, since: int) -> str:
        with self.output.open("rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")

    def take(self, order: Take) -> Taken:
        """One block, by the judge's clock, after a launch that is not timed."""
        try:
            timer = self.gpu.timer(self.problem)
            clock, launches = self._clock(order.number, timer)
            if timer == "graph":  # its first launch holds the time in which it is brought to the device
                clock.run()
            return Taken(clock.run() / launches)
        except Exception as error:
            return Taken(None, described(error, 300))

    def _clock(self, number: int, timer: str) -> tuple[Any, int]:
        from harness.judge.child.clock import CLOCKS

        calls = itertools.cycle([partial(self.kernels[number], *tensors) for tensors in self.sets])
        estimate = CLOCKS[self.gpu.plain_timer](next(calls), [next(calls)])
        launch_ms = min(estimate.run() for _ in range(ESTIMATES))
        launches = max(1, min(MOST_LAUNCHES, round(BLOCK_MS / launch_ms)))
        clock = CLOCKS[timer](next(calls), list(itertools.islice(calls, launches)))
        return clock, launches

    def _set(self) -> list[Any]:
        import torch

        shape, dtype = self.problem.tensors[-1]
        output = torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)
        return [*inputs(self.problem, self.device), output]
