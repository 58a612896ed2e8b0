"""What to tune and how, and what earlier calls left of the same problem."""

from dataclasses import dataclass
from typing import Final

from harness.catalog.tree import Tree
from harness.extras.tune.race import RUNGS, Rung
from harness.extras.tune.record import Pick, Trial, picks_path, trials_path
from harness.extras.tune.survey import Entry
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.machine.nvml import Device
from harness.records.base import Cause, Environment, Status, now
from harness.records.store import read

ENGINE: Final = "tilebench"


@dataclass(frozen=True, slots=True)
class TunePlan:
    """What to tune, and how."""

    tree: Tree
    gpu: Gpu
    device: Device | None
    problem: Problem
    model: str
    families: tuple[str, ...]
    settings: Settings
    carver: bool = True
    again: bool = False
    parent: str | None = None
    screened: bool = True  # who is far behind in the screen is not raced
    rungs: tuple[Rung, ...] = RUNGS
    engine: str = ENGINE

    @property
    def place(self) -> tuple[str, str, str]:
        return self.gpu.key, self.problem.shape_key, self.model

    def timed(
        self,
        entry: Entry,
        latency_ms: float | None,
        cause: Cause | None,
        reason: str,
        *,
        race: int,
        rung: int,
        families_sha256: str,
        environment: Environment,
        engine: str | None = None,
    ) -> Trial:
        """What is kept of a candidate that was timed without the judge: a latency, or a cause."""
        return Trial(
            schema=1,
            recorded_at=now(),
            gpu=self.gpu.key,
            shape_key=self.problem.shape_key,
            model=self.model,
            engine=engine or self.engine,
            race=race,
            rung=rung,
            family=entry.family,
            config=entry.config,
            origin=entry.origin,
            families_sha256=families_sha256,
            environment=environment,
            status=cause.status if cause else Status.PASSED,
            cause=cause,
            reason=reason or None,
            latency_ms=latency_ms,
        )


@dataclass(slots=True)
class History:
    """What earlier calls left of the same problem under the same model's name."""

    trials: list[Trial]
    picks: list[Pick]

    @classmethod
    def of(cls, plan: TunePlan) -> "History":
        trials, _ = read(trials_path(plan.tree, *plan.place), Trial)
        picks, _ = read(picks_path(plan.tree, *plan.place), Pick)
        return cls(trials, picks)

    def race(self, engine: str, environment: Environment, families: dict[str, str], *, again: bool) -> int:
        """The race that goes on: the newest of the same sources, versions and device; a new one where there is none."""
        mine = [each.race for each in self.trials if self._same(each, engine, environment, families)]
        last = max([*(each.race for each in self.trials), *(each.race for each in self.picks)], default=0)
        return last + 1 if again or not mine else max(mine)

    def of_race(self, race: int, engine: str, environment: Environment, families: dict[str, str]) -> list[Trial]:
        """What need not be measured again; what the machine may have caused is left out."""
        return [
            each
            for each in self.trials
            if each.race == race
            and each.cause not in (Cause.REFEREE, Cause.ATTEMPTS)
            and self._same(each, engine, environment, families)
        ]

    @staticmethod
    def _same(trial: Trial, engine: str, environment: Environment, families: dict[str, str]) -> bool:
        return (
            trial.engine == engine
            and trial.environment == environment
            and families.get(trial.family) == trial.families_sha256
        )
