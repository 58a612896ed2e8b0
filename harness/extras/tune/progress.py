"""What a person sees of a race: candidates left, the leader, and the time to the end."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from harness.extras.tune.record import TuningTrial
from harness.extras.tune.screen import Screened
from harness.extras.tune.space import constant, words
from harness.extras.tune.survey import SpaceEntry
from harness.judge.statistics import estimate
from harness.machine.progress import Quiet, Reporter, reporting
from harness.machine.table import bounded, with_interval

SURVIVE = 0.5  # of a rung's field, a guess for the time to the end; races on an H200 and a CPU keep fewer
GROWTH = 1.5  # of a candidate's time from rung to rung, most of which is its start


@dataclass(slots=True)
class _RungProgress:
    number: int
    of: int
    field: int
    waiting: int
    started: float
    first: float = 0.0  # time of the first outcome: builds come before it, and are not part of the pace
    done: int = 0


class Narrator:
    """A reporter that shows the race in place of the judge's own messages."""

    def __init__(self, entries: Sequence[SpaceEntry]) -> None:
        self._live: Reporter = Quiet()
        self._rung: _RungProgress | None = None
        self._leader: tuple[float, str] | None = None
        self._fastest_ms = inf
        self._fixed = constant([entry.config for entry in entries])

    @contextmanager
    def rung(self, number: int, of: int, field: int, waiting: int) -> Iterator[Reporter]:
        """One rung: a bar over the candidates that wait for it."""
        self._rung = _RungProgress(number, of, field, waiting, time.monotonic())
        self._leader = None
        with self.bar(waiting):
            yield self

    @contextmanager
    def screen(self, waiting: int) -> Iterator[None]:
        """The screen: a bar over all candidates."""
        self._fastest_ms = inf
        with self.bar(waiting) as live:
            live.doing(f"screening {waiting} candidates")
            yield

    def screened(self, found: Screened) -> None:
        """Show one candidate's time in the screen, or its failure."""
        name = words(found.entry.config, self._fixed)
        if found.launch_ms is None:
            self._live.finished(f"screen    {name}: {found.reason}")
            return
        self._live.finished(f"screen    {name}: {found.launch_ms:.4g} ms")
        self._fastest_ms = min(self._fastest_ms, found.launch_ms)
        self._live.doing(f"screening; {self._fastest_ms:.4g} ms is the fastest so far")

    @contextmanager
    def bar(self, waiting: int) -> Iterator[Reporter]:
        """A bar over the candidates that wait, such as for the rung at the power limit."""
        with reporting(waiting) as self._live:
            yield self._live
        self._live = Quiet()

    def sustained(self, entry: SpaceEntry, trial: TuningTrial) -> None:
        """Show one candidate's outcome at the power limit."""
        found = trial.sustained
        said = f"{trial.status}: {trial.reason}"
        if found is not None:
            said = f"ratio {bounded(found)}"
        self._live.finished(f"sustained {words(entry.config, self._fixed)}: {said}")

    def doing(self, text: str) -> None:
        """Show the race; of the judge's messages only those of builds."""
        building = text if text.startswith(("building", "importing")) else ""
        self._live.doing(self._line() + (f"; {building}" if building else ""))

    def finished(self, text: str, *, advance: bool = True) -> None:
        """Drop the judge's line of a candidate: ``heard`` shows the outcome with the candidate's levers."""

    def heard(self, entry: SpaceEntry, trial: TuningTrial) -> None:
        """Show one candidate's outcome on the rung."""
        assert self._rung is not None
        self._rung.done += 1
        if self._rung.done == 1:
            self._rung.first = time.monotonic()
        name = words(entry.config, self._fixed)
        if trial.measurement is None:
            self._live.finished(f"{trial.status:<9} {name}: {trial.reason}")
        else:
            found = estimate(trial.measurement.blocks)
            if self._leader is None or found.ratio > self._leader[0]:
                self._leader = found.ratio, name
            self._live.finished(
                f"rung {self._rung.number + 1}    {name}: {trial.measurement.time_ms:.4g} ms, "
                f"ratio {with_interval(found.ratio, found.low, found.high)}"
            )
        self._live.doing(self._line())

    def _line(self) -> str:
        rung = self._rung
        if rung is None:
            return "the race begins"
        leads = f"; leading {self._leader[0]:.4f} {self._leader[1]}" if self._leader else ""
        return f"rung {rung.number + 1} of {rung.of}, {rung.field} candidates left{leads}{_to_go(rung)}"


def _to_go(rung: _RungProgress) -> str:
    """The time to the end of the race, estimated from the pace of this rung."""
    if not rung.done:
        return ""
    now = time.monotonic()
    pace_s = (now - rung.first) / (rung.done - 1) if rung.done > 1 else now - rung.started
    seconds = pace_s * (rung.waiting - rung.done)
    field = float(rung.field)
    for _ in range(rung.number + 1, rung.of):
        field, pace_s = field * SURVIVE, pace_s * GROWTH
        seconds += field * pace_s
    return f"; about {seconds / 60:.0f} min to the end" if seconds >= 90 else f"; about {seconds:.0f} s to the end"
