"""A side as the referee sees it: a process that runs only in its own turns and is timed by two clocks."""

import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from harness.judge.child.arena import Set
from harness.judge.child.completion import Completion
from harness.judge.messages import (
    Broken,
    Inspect,
    Inspected,
    Message,
    Prepare,
    Ran,
    Ready,
    Renew,
    Run,
    Unanswered,
    receive,
    send,
)
from harness.records.base import Cause

BUSY: Final = 0.3
# On an H200 a block took up to 0.5 ms longer from the order to its last write, by the wake-up of a process. The device
# was idle up to 0.5 ms after that. A lead-in takes a little longer than other launches.
WAKE_MS: Final = 0.5
IDLE_MS: Final = 0.5
OF_LEAD_IN: Final = 0.1
RAN_MS: Final = 1.0  # of CPU time while it stood still
MOST_OFFENCES: Final = 2  # a virtual machine charges a thread that is just being stopped for time of others
MOST_DISORDERED: Final = 0.1  # of the blocks; to move a median takes half of them
# The causes that a side may give for a failed launch; it cannot blame the referee.
LAUNCH_FAILURES: Final = (Cause.RUNTIME, Cause.COMPILE, Cause.OUT_OF_MEMORY)
_CPUCLOCK_SCHED: Final = 2  # with a negated PID: the CPU time of a process, as clock_getcpuclockid makes it


class Out(Exception):
    """A side, by default the contestant, is out of the measurement."""

    def __init__(self, cause: Cause, reason: str, traceback: str = "", side: str = "contestant") -> None:
        super().__init__(reason)
        self.side = side
        self.cause = cause
        self.reason = reason
        self.traceback = traceback


@dataclass(slots=True)
class ServedSide:
    """Baseline or contestant: a channel with a deadline on every answer.

    The process and its group are stopped except between an order and its answer. A side cannot work ahead while inputs
    are filled, nor disturb the other side's block.
    """

    name: str
    channel: Connection
    pid: int
    deadline_s: float
    cpu: bool
    may_prepare: bool = False
    prepares: bool = False
    launches: int = 1
    began_s: float = 0.0
    spent_ms: float = 0.0
    passed_ms: float = 0.0
    timed_ms: float = math.nan  # by the outputs of the last block
    launch_ms: float = 1e-6  # of the last block
    libraries: dict[str, str] = field(default_factory=dict)
    offences: int = 0
    watched: int = 0  # blocks, by their outputs
    disorders: int = 0
    _stood_s: float | None = None  # its CPU time, noted after the last stop

    def prepare(self, sets: tuple[Set, ...], timer: str, *, writes: bool = False) -> None:
        ready: Ready = self._ask(Prepare(sets, timer, writes), Ready)
        self.libraries = ready.libraries
        self.prepares = self.may_prepare and ready.prepares
        if ready.overlap and self.name == "contestant":
            raise Out(Cause.OVERLAP, ready.overlap)

    def renew(self) -> None:
        """Let it prepare new inputs before it is timed, if it does so: a library may, an iteration may not."""
        if self.prepares:
            self._ask(Renew(), Ready)

    def inspect(self) -> Inspected:
        answer: Inspected = self._ask(Inspect(), Inspected)
        return answer

    def run(self, repetitions: int = 1, meanwhile: Callable[[], None] | None = None) -> float:
        """Run one block, or its timed part so many times; ms by the side's own clock.

        ``meanwhile`` is called again and again until the side answers.
        """
        answer: Ran = self._ask(Run(repetitions), Ran, meanwhile)
        if not 0 < answer.elapsed_ms < math.inf:
            raise self._out(Cause.CLOCK, f"a block is said to have taken {answer.elapsed_ms} ms")
        self.launch_ms = answer.elapsed_ms / (self.launches * repetitions)
        return answer.elapsed_ms

    def late_ms(self, elapsed_ms: float) -> tuple[float, float]:
        """How much longer the last block took than by its own clock, by two clocks.

        On a CPU the first counts the process's CPU time, the lead-in allowed for. That leaves room for a lie where
        others use the core too. So the wall clock counts as well, with an allowance for a busy machine.
        On a GPU the first is that of the outputs. The second counts from the order on, with the lead-in.
        """
        claimed_ms = elapsed_ms * (1 + 1 / self.launches)
        if self.cpu:
            return self.spent_ms - claimed_ms, self.passed_ms - claimed_ms - BUSY * elapsed_ms
        return self.timed_ms - elapsed_ms, self.passed_ms - claimed_ms - WAKE_MS - OF_LEAD_IN * self.launch_ms

    def note_the_end(self, completion: Completion) -> None:
        """Note the block's time by its outputs. Raise Out if its launches run out of order again and again."""
        completion.look()
        self.timed_ms = completion.timed_ms
        if self.name == "baseline":  # its answer is believed
            return
        self.passed_ms = max(self.passed_ms - IDLE_MS, (completion.ended_s - self.began_s) * 1e3)
        self.watched += 1
        self.disorders += completion.out_of_order
        if self.disorders > MOST_OFFENCES + MOST_DISORDERED * self.watched:
            raise Out(Cause.OVERLAP, "its launches do not write in their order, each after the one before has ended")

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)
        self._stood_s = None

    def note_that_it_stands(self) -> None:
        """Read its CPU time, unless that was done since the last stop; the stop has reached all threads by now."""
        if self._stood_s is None:
            self._stood_s = self._cpu_s()

    def _refuse_having_run(self) -> None:
        """Raise Out if it ran again and again while it should have stood: then something undoes the stops."""
        now_s = self._cpu_s()
        if now_s is None or self._stood_s is None:
            return
        ran_ms = (now_s - self._stood_s) * 1e3
        self.offences += ran_ms > RAN_MS
        if self.offences > MOST_OFFENCES:
            raise self._out(Cause.SABOTAGE, f"its process ran for {ran_ms:.3g} ms while it should have stood still")

    def _ask(self, order: Message, kind: Any, meanwhile: Callable[[], None] | None = None) -> Any:
        self._refuse_having_run()
        started, self.began_s = self._now(), time.perf_counter()
        try:
            self._signal(signal.SIGCONT)
            send(self.channel, order)
            while (
                meanwhile is not None
                and not self.channel.poll()
                and time.perf_counter() < self.began_s + self.deadline_s
            ):
                meanwhile()
            answer = receive(self.channel, kind | Broken, self.deadline_s)
        except Unanswered:
            asked = type(order).__name__.lower()
            raise self._out(Cause.TIMEOUT, f"no answer within {self.deadline_s:g} s to the order '{asked}'") from None
        except (EOFError, OSError):
            raise self._out(Cause.CRASH, "the process ended while its kernel ran") from None
        except msgspec.MsgspecError:
            raise self._out(Cause.CRASH, "the process answered with something that is no answer") from None
        finally:
            self.stop()
        if isinstance(answer, Broken):  # before its clock is read, since a broken process may be gone
            cause = answer.cause if answer.cause in LAUNCH_FAILURES else Cause.CRASH
            raise self._out(cause, answer.reason, answer.traceback)
        self.spent_ms = (self._now() - started) * 1e3
        self.passed_ms = (time.perf_counter() - self.began_s) * 1e3
        return answer

    def _out(self, cause: Cause, reason: str, traceback: str = "") -> Out:
        return Out(cause, reason, traceback, self.name)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _now(self) -> float:
        """The referee's clock, out of the process's reach: wall time, or on a CPU the CPU time of all its threads."""
        if not self.cpu:
            return time.perf_counter()
        now_s = self._cpu_s()
        if now_s is None:
            raise self._out(Cause.CRASH, "the process ended while its kernel ran")
        return now_s

    def _cpu_s(self) -> float | None:
        """The CPU time of all its threads; None if it has ended, or where Linux does not tell."""
        try:
            return time.clock_gettime((~self.pid << 3) | _CPUCLOCK_SCHED)
        except OSError:
            return None


def in_turns(baseline: tuple[float, float], contestant: tuple[float, float]) -> tuple[float, float]:
    """The lateness in ms of both sides of a round, each given by two clocks.

    A core that others use delays both by the wall clock, and neither by its CPU time. So the baseline's second clock
    excuses the contestant's second clock alone.
    """
    (own_ms, wall_ms), (baseline_ms, baseline_wall_ms) = contestant, baseline
    return baseline_ms, max(own_ms, wall_ms - max(0.0, baseline_wall_ms))
