"""The screen: every candidate compiled on all cores and timed for some milliseconds, unverified, before any is raced.

To race one means two new processes, a verification and pacing: ten times as long as its blocks. The screen's processes
hold many candidates each and take the device in turns. What it finds only says who need not be raced (``race``).
"""

import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.extras.tune.stopwatch import Compile, Compiled, Posted, Take, Taken, run_stopwatch
from harness.extras.tune.survey import Entry
from harness.judge.candidate import Settings
from harness.judge.child.brief import Brief
from harness.judge.messages import Message
from harness.judge.processes import Ended, Worker, memory_limit_bytes
from harness.machine import cores
from harness.machine.interruption import heed
from harness.records.base import Cause
from harness.runs.run_ahead import run_ahead

SPARE_CORES: Final = 2  # for the parent, and for whose turn it is


@dataclass(frozen=True, slots=True)
class Screened:
    """What became of one candidate: ms of a launch; ``cause`` where it did not even compile, and will not in a race."""

    entry: Entry
    launch_ms: float | None = None
    cause: Cause | None = None
    reason: str = ""


Keep = Callable[[Screened], None]


class Watch(Worker):
    """One process of the screen, by the candidates' numbers."""

    def __init__(self, brief: Brief, folder: Path, settings: Settings, jobs: int) -> None:
        self._settings = settings
        own = Path(tempfile.mkdtemp(dir=folder))
        super().__init__("screen", run_stopwatch, (Posted(brief, own),), memory_limit_bytes(jobs))

    def compile(self, number: int, entry: Entry) -> str:
        """Why it does not compile; nothing where it does. Raises Ended."""
        answer: Compiled = self._ask(Compile(number, entry), Compiled, self._settings.build_deadline_s)
        return answer.reason

    def take(self, number: int) -> Taken:
        """Raises Ended."""
        answer: Taken = self._ask(Take(number), Taken, self._settings.launch_deadline_s)
        return answer

    def _ask(self, order: Message, kind: Any, deadline_s: float) -> Any:
        self.tell(order)
        return self.hear(kind, deadline_s)


@dataclass(slots=True)
class Screen:
    """The processes, and where each candidate's kernel lies."""

    brief: Brief
    settings: Settings
    folder: Path
    jobs: int
    device: threading.Lock = field(default_factory=threading.Lock)
    idle: list[Watch] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    homes: dict[int, Watch] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)

    def first(self, numbered: tuple[int, Entry]) -> Screened | int:
        """Compile and time it; its number on a CPU, where building would disturb it, and where it is timed later."""
        number, entry = numbered
        watch = self._borrow()
        try:
            failed = self._compile(watch, number, entry)
            return failed or (number if self.brief.gpu.is_cpu else self._take(watch, number, entry))
        finally:
            self._give_back(watch)

    def late(self, number: int, entry: Entry) -> Screened:
        """Time it when nothing compiles any more, but for what another's fault has ended with its process."""
        watch = self.homes.get(number)
        if watch is None:
            watch = self._borrow()
            failed = self._compile(watch, number, entry)
            self._give_back(watch)
            if failed:
                return failed
        return self._take(watch, number, entry)

    def abort(self) -> None:
        self.stopped.set()
        for watch in list(self.watches):
            watch.kill()

    def leave(self) -> None:
        for watch in self.watches:
            watch.end()

    def _compile(self, watch: Watch, number: int, entry: Entry) -> Screened | None:
        """None where it went well."""
        try:
            reason = watch.compile(number, entry)
        except Ended as ended:
            self._lose(watch)
            full = ended.cause is Cause.OUT_OF_MEMORY  # by all that the process held, too
            return Screened(entry, cause=None if full else ended.cause, reason=ended.reason)
        if reason:
            return Screened(entry, cause=Cause.COMPILE, reason=reason)
        self.homes[number] = watch
        return None

    def _take(self, watch: Watch, number: int, entry: Entry) -> Screened:
        try:
            with self.device:
                taken = watch.take(number)
        except Ended as ended:
            taken = Taken(None, ended.reason)
        if taken.launch_ms is None:  # after a fault a context launches nothing more
            self._lose(watch)
        return Screened(entry, taken.launch_ms, reason=taken.reason)

    def _borrow(self) -> Watch:
        try:
            return self.idle.pop()
        except IndexError:
            watch = Watch(self.brief, self.folder, self.settings, self.jobs)
            self.watches.append(watch)
            if self.stopped.is_set():
                watch.kill()
            return watch

    def _give_back(self, watch: Watch) -> None:
        if watch in self.watches:
            self.idle.append(watch)

    def _lose(self, watch: Watch) -> None:
        """Its process is gone, and with it all kernels that it holds."""
        for watches in (self.watches, self.idle):
            if watch in watches:
                watches.remove(watch)
        for number in [number for number, home in list(self.homes.items()) if home is watch]:
            self.homes.pop(number, None)
        watch.end()


def screen(brief: Brief, entries: Iterable[Entry], settings: Settings, folder: Path, keep: Keep) -> None:
    """Tell ``keep`` of every candidate once.

    Each gets one block, while the others compile: back to back, blocks were 8 to 21% longer under an H200's power cap,
    and in another order. ``folder`` takes what the processes write. The forkserver must run. Raises KeyboardInterrupt.
    """
    numbered = dict(enumerate(entries))
    jobs = max(1, min(len(numbered), cores.jobs(0 if brief.gpu.is_cpu else SPARE_CORES)))
    screening = Screen(brief, settings, folder, jobs)
    try:
        _time_all(screening, numbered, jobs, keep)
    finally:
        screening.leave()


def _time_all(screening: Screen, numbered: Mapping[int, Entry], jobs: int, keep: Keep) -> None:
    """Compile on all cores, and time whatever has compiled."""
    late: list[int] = []
    with run_ahead(
        screening.first, numbered.items(), jobs, window=2 * jobs, abort=screening.abort, ordered=False
    ) as screened:
        for made in screened:
            if isinstance(made, Screened):
                keep(made)
            else:
                late.append(made)
    for number in late:
        heed()
        keep(screening.late(number, numbered[number]))
