"""A candidate: one iteration on its way through the stages, with its processes and the reason why it fails."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from harness.catalog.tree import Iteration
from harness.errors import InfrastructureError, printable, printable_lines
from harness.judge import contract
from harness.judge.facts.device_rules import rules_of
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import families_sha256, judge_sha256, source_sha256
from harness.judge.facts.problem import Problem
from harness.judge.messages import Seated, Trouble
from harness.judge.processes import Contestant, Ended, Referee, SideProcess
from harness.judge.stopping import Progress
from harness.machine.nvml import Device
from harness.records.base import Cause, Confinement, Stage
from harness.records.builds import Build, BuildRecord
from harness.records.results import Measurement, Trial

START_DEADLINE_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How a measurement is made. ``target_half_width`` is relative to the ratio; ``budget_s`` is device time.

    ``attempts`` is how many sources of one iteration may fail to compile. ``again`` compiles anew what is recorded.
    ``opponent_deadline_s`` is for an opponent to compile and to tune.
    """

    budget_s: float
    target_half_width: float = 0.002
    min_placements: int = 8
    rounds_per_placement: int = 6
    min_launches: int = 50
    build_deadline_s: float = 180.0
    launch_deadline_s: float = 30.0
    attempts: int = 5
    again: bool = False
    opponent_deadline_s: float = 300.0

    @classmethod
    def of(cls, gpu: Gpu, budget_s: float | None = None) -> Self:
        """The settings of ``bench`` on this kind of device."""
        rules = rules_of(gpu)
        return cls(
            rules.budget_s if budget_s is None else budget_s,
            rounds_per_placement=rules.rounds_per_placement,
            min_launches=rules.min_launches,
        )


class Rejection(Exception):
    """The iteration does not pass. What may quote the contestant is bounded, and its control characters escaped."""

    def __init__(self, cause: Cause, reason: str, traceback: str | None = None) -> None:
        self.cause = cause
        self.reason = printable(reason)
        self.traceback = printable_lines(traceback) if traceback else None
        super().__init__(self.reason)


@dataclass(slots=True)
class Candidate:
    """One iteration on its way, with what each stage found so far.

    ``recorded_build`` is the record that its build repeats; a repeated build is not recorded again. ``against`` is what
    runs in the library's place: an opponent, or the iteration itself under another interpreter. ``libraries`` are the
    versions of CUDA's, as its baseline loaded them.
    """

    iteration: Iteration
    root: Path
    gpu: Gpu
    device: Device | None
    settings: Settings
    referees: "Referees"
    source_sha256: str = field(init=False)
    families_sha256: str = field(init=False)
    judge_sha256: str = field(init=False)
    so_far: Callable[[Progress], None] = lambda progress: None  # hears of a measurement while it goes on
    builders: int = 1  # candidates that build at once and share the memory
    launches: bool = True  # False if only the evidence of its build is wanted
    stage: Stage = Stage.CONTRACT
    terms: contract.Terms | None = None
    contestant: Contestant | None = None
    baseline: SideProcess | None = None
    against: Iteration | None = None
    build: Build | None = None
    recorded_build: BuildRecord | None = None
    dynamic: tuple[str, ...] = ()  # the dimensions that its kernel leaves symbolic
    verification: tuple[Trial, ...] = ()
    measurement: Measurement | None = None
    libraries: dict[str, str] = field(default_factory=dict)
    confinement: Confinement | None = None  # known when its processes have ended

    def __post_init__(self) -> None:
        self.source_sha256, self.families_sha256, self.judge_sha256 = self._hashes(judge_sha256)

    def hashes_now(self) -> tuple[str, str, str]:
        """Hashes of source, families and judge as they lie on the disk now."""
        return self._hashes(judge_sha256.__wrapped__)

    def _hashes(self, of_judge: Callable[[Path, str, Gpu], str]) -> tuple[str, str, str]:
        path = self.iteration.path
        judge = of_judge(self.root, self.iteration.problem.operator, self.gpu)
        return source_sha256(path), families_sha256(self.root, path), judge

    @property
    def baseline_name(self) -> str:
        return self.referees.baseline if self.against is None else self.against.name

    def leave(self) -> None:
        """End its processes, whatever became of them."""
        if self.contestant is not None:
            self.confinement = self.contestant.confinement
        for side in (self.contestant, self.baseline):
            if side is not None:
                side.end()
        self.contestant = self.baseline = None


@dataclass(slots=True)
class Referees:
    """The referee at work: one at a time, kept while the problem stays the same."""

    root: Path
    gpu: Gpu
    baseline: str = ""
    kind: type[Referee] = Referee
    _referee: Referee | None = None

    def seat(self, problem: Problem) -> Referee:
        """The referee of a problem. Raises InfrastructureError if it cannot start."""
        if self._referee is not None and self._referee.problem == problem and self._referee.alive:
            return self._referee
        self.leave()
        try:
            self._referee = self.kind(self.root, problem, self.gpu)
            seated = self._referee.hear(Seated | Trouble, START_DEADLINE_S)
            if isinstance(seated, Trouble):
                raise Ended(Cause.REFEREE, seated.reason)
        except Ended as ended:
            self.leave()
            raise InfrastructureError(f"{problem}: the referee could not start: {ended.reason}") from None
        self.baseline = seated.baseline
        return self._referee

    def leave(self) -> None:
        if self._referee is not None:
            self._referee.end()
            self._referee = None
