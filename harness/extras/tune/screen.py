"""The screen: compile every candidate on all cores, and time each for some milliseconds without verifying it.

To race a candidate takes two new processes, a verification and pacing: ten times as long as its blocks. The processes
of the screen hold many candidates each and share the device in turns. The screen decides only which candidates need no
race (``race``).
"""

import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.extras.tune.stopwatch import CompileCandidate, StopwatchAnswer, TimeCandidate, run_stopwatch
from harness.extras.tune.survey import SpaceEntry
from harness.judge.candidate import Settings
from harness.judge.child.brief import Brief
from harness.judge.processes import Ended, Worker, end_forkserver, memory_limit_bytes
from harness.machine import cores
from harness.machine.interruption import heed
from harness.records.base import Cause
from harness.runs.run_ahead import run_ahead

SPARE_CORES: Final = 2  # for the parent and the process that has the device


@dataclass(frozen=True, slots=True)
class Screened:
    """The outcome of one candidate: ms a launch, or a reason; ``cause`` where it did not compile."""

    entry: SpaceEntry
    launch_ms: float | None = None
    cause: Cause | None = None
    reason: str = ""


class Screen:
    """The processes of a screen: each thread starts its own, which holds the kernels of its candidates."""

    def __init__(self, brief: Brief, settings: Settings, folder: Path, jobs: int) -> None:
        self.brief, self.settings, self.folder, self.jobs = brief, settings, folder, jobs
        self.processes: list[Worker] = []
        self._holders: dict[int, Worker] = {}
        self._device = threading.Lock()
        self._of_thread = threading.local()
        self._stopped = threading.Event()

    def compile(self, numbered: tuple[int, SpaceEntry]) -> Screened | int:
        """Compile a candidate and time it. On a CPU, builds would disturb the time: give its number for later."""
        number, entry = numbered
        failed = self._compile(number, entry)
        return failed or (number if self.brief.gpu.is_cpu else self._time(number, entry))

    def time(self, number: int, entry: SpaceEntry) -> Screened:
        """Time a candidate when nothing compiles; compile it again if its process has ended meanwhile."""
        failed = None if number in self._holders else self._compile(number, entry)
        return failed or self._time(number, entry)

    def abort(self) -> None:
        """End all processes, also those that a thread is about to start."""
        self._stopped.set()
        end_forkserver()

    def _compile(self, number: int, entry: SpaceEntry) -> Screened | None:
        """None if the candidate compiled."""
        process = self._process()
        try:
            answer = self._ask(process, CompileCandidate(number, entry), self.settings.build_deadline_s)
        except Ended as ended:
            full = ended.cause is Cause.OUT_OF_MEMORY  # the other candidates of the process may be why
            return Screened(entry, cause=None if full else ended.cause, reason=ended.reason)
        if answer.reason:
            return Screened(entry, cause=Cause.COMPILE, reason=answer.reason)
        self._holders[number] = process
        return None

    def _time(self, number: int, entry: SpaceEntry) -> Screened:
        process = self._holders[number]
        try:
            with self._device:
                answer = self._ask(process, TimeCandidate(number), self.settings.launch_deadline_s)
        except Ended as ended:
            return Screened(entry, reason=ended.reason)
        if answer.launch_ms is None:  # after a fault, a device context launches nothing more
            self._forget(process)
        return Screened(entry, answer.launch_ms, reason=answer.reason)

    def _ask(self, process: Worker, order: CompileCandidate | TimeCandidate, deadline_s: float) -> StopwatchAnswer:
        """Raises Ended, and forgets the process then."""
        try:
            process.tell(order)
            answer: StopwatchAnswer = process.hear(StopwatchAnswer, deadline_s)
        except Ended:
            self._forget(process)
            raise
        return answer

    def _process(self) -> Worker:
        """The process of this thread."""
        process: Worker | None = getattr(self._of_thread, "process", None)
        if process is None or process not in self.processes:
            own = Path(tempfile.mkdtemp(dir=self.folder))
            process = Worker("screen", run_stopwatch, (self.brief, own), memory_limit_bytes(self.jobs))
            self._of_thread.process = process
            self.processes.append(process)
            if self._stopped.is_set():
                process.kill()
        return process

    def _forget(self, process: Worker) -> None:
        """End a process, and forget the kernels that it holds."""
        self.processes.remove(process)
        for number in [number for number, holder in list(self._holders.items()) if holder is process]:
            self._holders.pop(number, None)
        process.end()


def screen(
    brief: Brief, entries: Iterable[SpaceEntry], settings: Settings, folder: Path, keep: Callable[[Screened], None]
) -> None:
    """Screen all candidates, and give each outcome to ``keep`` once; the forkserver must run.

    Each candidate gets one block while the others compile. Back to back under an H200's power cap, blocks were 8 to 21%
    longer, and ranked otherwise. ``folder`` takes what the processes write. Raises KeyboardInterrupt.
    """
    numbered = dict(enumerate(entries))
    jobs = max(1, min(len(numbered), cores.jobs(0 if brief.gpu.is_cpu else SPARE_CORES)))
    screening = Screen(brief, settings, folder, jobs)
    late: list[int] = []
    try:
        with run_ahead(
            screening.compile, numbered.items(), jobs, window=2 * jobs, abort=screening.abort, ordered=False
        ) as outcomes:
            for outcome in outcomes:
                if isinstance(outcome, Screened):
                    keep(outcome)
                else:
                    late.append(outcome)
        for number in late:
            heed()
            keep(screening.time(number, numbered[number]))
    finally:
        for process in screening.processes:
            process.end()
