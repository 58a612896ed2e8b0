"""One measurement of an iteration in two environments: built by both, verified, and timed in paired blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from harness.catalog.tree import Tree
from harness.extras.versus.compiling import code_sha256
from harness.extras.versus.environment import PythonEnvironment, support
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Rejection
from harness.judge.facts.gpu import Gpu
from harness.judge.interpreters import Interpreter
from harness.judge.messages import Built
from harness.judge.pipeline import bench, rival, verify
from harness.judge.processes import Side, end_forkserver
from harness.machine.progress import Reporter
from harness.records.base import Cause
from harness.records.versus import MatchSide, VersusRecord
from harness.runs.run import Plan, outcome
from harness.runs.run_ahead import run_ahead

SIDES: Final[tuple[Side, Side]] = "baseline", "contestant"
BUILDS: Final = len(SIDES)  # at once, for one measurement


@dataclass(frozen=True)
class Contender:
    """An environment that takes part: its interpreter, and what records say of it."""

    side: MatchSide
    interpreter: Interpreter

    @classmethod
    def of(cls, tree: Tree, where: PythonEnvironment, reporter: Reporter) -> "Contender":
        side = MatchSide(where.name, where.python_version, where.tilelang, where.torch, where.sha256)
        needed = support(tree, where, reporter)
        return cls(side, Interpreter(where.name, where.python, where.caches(tree), needed))


@dataclass(frozen=True)
class Match:
    """Two environments, and how to measure them; ``identical_too`` measures even what has the same code in both."""

    plan: Plan
    old: Contender
    new: Contender
    identical_too: bool = False


@dataclass
class Duel:
    """One measurement under way: both processes are started, and have compiled or failed.

    Where ``swapped``, the old environment stands in the contestant's place.
    """

    match: Match
    swapped: bool
    candidate: Candidate
    same: bool = False
    failures: dict[Contender, Rejection] = field(default_factory=dict)

    def build(self) -> None:
        """Build on both sides at once, and stop the processes until ``finished``. Needs no device."""
        candidate, places = self.candidate, zip(SIDES, self.places, strict=True)
        with run_ahead(self._built, places, BUILDS, window=BUILDS, abort=end_forkserver) as found:
            one, other = found
        if one is not None and other is not None:
            self.same = identical(one, other, self.match.plan.gpu)
        if self.failures or self.settled:
            candidate.leave()
        for process in (candidate.baseline, candidate.contestant):
            if process is not None:
                process.pause()

    def _built(self, place: tuple[Side, Contender]) -> Built | None:
        """What one side's environment made of the iteration; None where it failed."""
        side, contender = place
        try:
            return rival(self.candidate, contender.interpreter, side)
        except Rejection as rejection:
            self.failures[contender] = fault_attribution.attribute(self.candidate, rejection)
            return None

    @property
    def _spoilt(self) -> Rejection | None:
        """A fault of the machine in a build, which says nothing of either environment."""
        return next((each for each in self.failures.values() if each.cause is Cause.REFEREE), None)

    @property
    def settled(self) -> bool:
        """Whether one code in both is the answer, so that nothing is measured."""
        return self.same and not self.match.identical_too

    @property
    def places(self) -> tuple[Contender, Contender]:
        """The environment in the library's place, and that in the contestant's."""
        return (self.match.new, self.match.old) if self.swapped else (self.match.old, self.match.new)

    def finished(self) -> VersusRecord:
        """Verify and time what was built, and end its processes."""
        plan, candidate = self.match.plan, self.candidate
        rejection = None
        if not self.failures and not self.settled:
            try:
                rejection = _benched(candidate)
            finally:
                candidate.leave()
        if rejection is not None and rejection.cause is not Cause.CLOCK:
            self.failures = _alone(plan, candidate, self.places)
        if self.failures:
            rejection = self._spoilt or self.failures.get(self.match.new) or self.failures[self.match.old]
        failures = {} if self._spoilt else self.failures
        return VersusRecord(
            **outcome(plan, candidate, rejection),
            old=_said(self.match.old, failures),
            new=_said(self.match.new, failures),
            swapped=self.swapped,
            identical=self.same,
            measurement=None if rejection is not None else candidate.measurement,
        )


def identical(old: Built, new: Built, gpu: Gpu) -> bool:
    """Whether both compiled the same: machine code and launches, on a CPU the C source; False for a library call."""
    one, other = old.compilation, new.compilation
    if one is None or other is None:
        return False
    if gpu.is_cpu:
        return one.source == other.source
    if one.cubin is None or other.cubin is None or one.launches != other.launches:
        return False
    return code_sha256(one.cubin) == code_sha256(other.cubin)


def _benched(candidate: Candidate) -> Rejection | None:
    try:
        bench(verify(candidate))
    except Rejection as rejection:
        return fault_attribution.attribute(candidate, rejection)
    return None


def _alone(plan: Plan, failed: Candidate, both: tuple[Contender, Contender]) -> dict[Contender, Rejection]:
    """Which of two environments fails by itself, beside the library, where their measurement has failed."""
    failures = {}
    for each in both:
        candidate = plan.enter(failed.iteration, failed.referees)
        try:
            rival(candidate, each.interpreter, "contestant")
            verify(candidate)
        except Rejection as rejection:
            failures[each] = fault_attribution.attribute(candidate, rejection)
        finally:
            candidate.leave()
    return {each: rejection for each, rejection in failures.items() if rejection.cause is not Cause.REFEREE}


def _said(contender: Contender, failures: Mapping[Contender, Rejection]) -> MatchSide:
    failed = failures.get(contender)
    return contender.side if failed is None else msgspec.structs.replace(contender.side, reason=failed.reason)
