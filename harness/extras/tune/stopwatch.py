"""A process of the screen: it compiles candidates, and times their launches when it has the device to itself."""

import itertools
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from harness.errors import compiler_complaint, described, printable
from harness.extras.tune.space import frozen
from harness.extras.tune.survey import SpaceEntry, attributed, quieten
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.child.inputs import tensors
from harness.judge.messages import Message, receive, send

BLOCK_MS: Final = 10.0
MOST_LAUNCHES: Final = 2048  # a block
SETS_BYTES: Final = 256 << 20  # of all tensor sets: several times the size of an L2
MOST_SETS: Final = 32
ESTIMATES: Final = 3


class CompileCandidate(Message, frozen=True):
    """Compile a candidate; ``number`` names it from now on."""

    number: int
    entry: SpaceEntry


class TimeCandidate(Message, frozen=True):
    """Time one block of a candidate's launches; nothing else uses the device."""

    number: int


class StopwatchAnswer(Message, frozen=True):
    """``reason`` says why an order failed; ``launch_ms`` answers a successful TimeCandidate."""

    launch_ms: float | None = None
    reason: str = ""


def run_stopwatch(brief: Brief, folder: Path, parent: Connection) -> None:
    """Body of the process, until the parent hangs up; ``folder`` takes compiled files and output."""
    with child_body(brief, parent):
        watch = Stopwatch(brief, folder)
        while True:
            order = receive(parent, CompileCandidate | TimeCandidate)
            send(parent, watch.compile(order) if isinstance(order, CompileCandidate) else watch.time(order))


class Stopwatch:
    """Compiled candidates, and the tensors that all are timed on."""

    def __init__(self, brief: Brief, folder: Path) -> None:
        import tilelang
        import torch

        from harness.judge.child.setup import work_in

        self.output = work_in(folder)
        quieten()
        tilelang.disable_cache()
        self.problem, self.gpu, self.root = brief.problem, brief.gpu, brief.root
        self.device = torch.device("cpu" if brief.gpu.is_cpu else "cuda")
        # Made at once: a new device context would disturb the candidate that another process times.
        # Launches take the sets in turns, so that no launch finds its inputs in L2.
        count = max(1, min(MOST_SETS, SETS_BYTES // brief.problem.bytes))
        self.sets = [tensors(self.problem, self.device) for _ in range(count)]
        self.kernels: dict[int, Callable[..., None]] = {}

    def compile(self, order: CompileCandidate) -> StopwatchAnswer:
        """Compile a candidate as its iteration would, without the device."""
        from harness.extras.tune.autotuner import program_of
        from harness.judge.child.failure import explain
        from harness.judge.child.kernel import build_kernel

        program = program_of(order.entry.family, self.problem)
        config = frozen(order.entry.config)
        written = self.output.stat().st_size
        try:
            kernel = build_kernel(lambda problem: program(**config), self.problem, self.gpu, self.device)
        except Exception as error:
            printed = self.output.read_bytes()[written:].decode(errors="replace")
            what = printable(compiler_complaint(printed) or explain(error), 300)
            return StopwatchAnswer(reason=attributed(error, self.root, order.entry.family, what))
        self.kernels[order.number] = kernel.launch
        return StopwatchAnswer()

    def time(self, order: TimeCandidate) -> StopwatchAnswer:
        """One block by the judge's clock, after launches that are not counted."""
        try:
            timer = self.gpu.timer
            clock, launches = self._clock(order.number, timer)
            if timer == "graph":  # the first launch of a graph includes its upload to the device
                clock.run()
            return StopwatchAnswer(clock.run() / launches)
        except Exception as error:
            return StopwatchAnswer(reason=described(error, 300))

    def _clock(self, number: int, timer: str) -> tuple[Any, int]:
        from harness.judge.child.clock import CLOCKS

        calls = itertools.cycle([partial(self.kernels[number], *tensors) for tensors in self.sets])
        estimate = CLOCKS[self.gpu.plain_timer](next(calls), [next(calls)])
        launch_ms = min(estimate.run() for _ in range(ESTIMATES))
        launches = max(1, min(MOST_LAUNCHES, round(BLOCK_MS / launch_ms)))
        return CLOCKS[timer](next(calls), list(itertools.islice(calls, launches))), launches
