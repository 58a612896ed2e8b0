"""What both engines share: the plan, candidates in a scratch tree, earlier outcomes, and the pick that is pinned."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from harness.authoring import scaffold
from harness.catalog.tree import Iteration, Tree
from harness.errors import UsageError
from harness.extras.scratch_tree import linked_tree, parent_of, write_iteration
from harness.extras.tune import pin
from harness.extras.tune.race import RUNGS, Rung
from harness.extras.tune.record import Pick, RankedCandidate, TuningTrial, picks_path, trials_path
from harness.extras.tune.survey import SpaceEntry, Surveyed, survey
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import families_sha256
from harness.judge.facts.problem import Problem
from harness.judge.verdicts import status_of
from harness.machine.nvml import Device
from harness.machine.progress import reporting
from harness.records.base import SCHEMA, Cause, Environment, Regime, Status, now
from harness.records.environment import describe
from harness.records.store import append, read
from harness.runs.rehearsal import rehearse
from harness.runs.run import alone, prepare

ENGINE: Final = "tilebench"
_IDEA: Final = "Candidate {} of a search, which never leaves its scratch tree."


@dataclass(frozen=True, slots=True)
class TunePlan:
    """What to tune, and how. ``screened``: skip candidates that the screen shows far behind.

    ``objective`` is the regime of the last rung.
    """

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
    screened: bool = True
    rungs: tuple[Rung, ...] = RUNGS
    engine: str = ENGINE
    objective: Regime = Regime.PAIRED

    @property
    def place(self) -> tuple[str, str, str]:
        return self.gpu.key, self.problem.shape_key, self.model


@dataclass(slots=True)
class Tuned:
    """The outcome of a search: the candidates, best first, and the pick; None where no candidate passed."""

    surveyed: Surveyed
    order: list[RankedCandidate]
    pick: Pick | None = None
    measured: int = 0
    reused: int = 0
    spared: int = 0  # too slow in the screen to be raced
    first_failure: str = ""


@dataclass(slots=True)
class History:
    """Earlier searches of a problem under one model's name, and what an outcome must match to hold today.

    ``families`` gives the hash of each family's sources.
    """

    trials: list[TuningTrial]
    picks: list[Pick]
    engine: str
    environment: Environment
    families: Mapping[str, str]

    def race(self, *, again: bool) -> int:
        """The number of the newest race of the same sources, versions and device, else that of a new race."""
        same = [each.race for each in self.trials if self.holds(each)]
        last = max([0, *(each.race for each in self.trials), *(each.race for each in self.picks)])
        return last + 1 if again or not same else max(same)

    def of_race(self, race: int) -> list[TuningTrial]:
        """The outcomes of a race that hold; faults that may be the machine's do not."""
        doubtful = (Cause.REFEREE, Cause.ATTEMPTS)
        return [each for each in self.trials if each.race == race and each.cause not in doubtful and self.holds(each)]

    def holds(self, outcome: TuningTrial | Pick) -> bool:
        """Whether an outcome is of the same engine, sources, versions and device."""
        here = (self.engine, self.environment, self.families.get(outcome.family))
        return (outcome.engine, outcome.environment, outcome.families_sha256) == here


@dataclass(slots=True)
class Search:
    """One search as it begins. ``tree`` is the scratch tree; ``iterations`` are by the candidates' keys."""

    plan: TunePlan
    tree: Tree
    surveyed: Surveyed
    iterations: Mapping[str, Iteration]
    history: History
    started: float

    def keep(
        self, entry: SpaceEntry, race: int, rung: int, cause: Cause | None, reason: str | None, **found: Any
    ) -> TuningTrial:
        """Record one candidate's outcome on a rung; ``found`` is a measurement or a latency."""
        trial = TuningTrial(
            **self._stamp(race, entry),
            rung=rung,
            origin=entry.origin,
            status=status_of(cause),
            cause=cause,
            reason=reason or None,
            **found,
        )
        append(trials_path(self.plan.tree, *self.plan.place), trial)
        return trial

    def pin(self, tuned: Tuned, winner: SpaceEntry, idea: str, race: int, **found: Any) -> None:
        """Pin the winner, unless an earlier search pinned the same, and record the pick."""
        plan, picks = self.plan, self.history.picks
        folder = plan.tree.sources(*plan.place)
        iteration = pin.already(plan.tree, folder, picks, winner)
        if iteration is None:
            iteration = pin.pin(plan.tree, plan.problem, plan.gpu, plan.model, winner, idea, plan.parent)
        tuned.pick = pick = Pick(
            **self._stamp(race, winner),
            iteration=iteration.name,
            candidates=len(tuned.surveyed.entries),
            failed=sum(each.trial.status is not Status.PASSED for each in tuned.order),
            refused=tuned.surveyed.refused,
            seconds=round(time.monotonic() - self.started, 3),
            **found,
        )
        # The same command after the end of a race finds the same pick.
        known = {(each.race, each.engine, each.iteration, each.objective) for each in picks}
        if (pick.race, pick.engine, pick.iteration, pick.objective) not in known:
            append(picks_path(plan.tree, *plan.place), pick)

    def _stamp(self, race: int, entry: SpaceEntry) -> dict[str, Any]:
        """The fields that both kinds of records share."""
        gpu, shape_key, model = self.plan.place
        return {
            "schema": SCHEMA,
            "recorded_at": now(),
            "gpu": gpu,
            "shape_key": shape_key,
            "model": model,
            "engine": self.plan.engine,
            "race": race,
            "family": entry.family,
            "config": entry.config,
            "environment": self.history.environment,
            "families_sha256": self.history.families[entry.family],
        }


@contextmanager
def searching(plan: TunePlan) -> Iterator[Search]:
    """A search on an otherwise idle device, in a scratch tree that is removed afterwards.

    Raises UsageError where the families refuse all of their configurations.
    """
    started = time.monotonic()
    with alone(plan.tree, plan.gpu, plan.device), linked_tree(plan.tree, "tune") as tree:
        with reporting(0) as reporter:
            prepare(plan.gpu, plan.device, reporter)
            rehearse(plan.tree, plan.gpu, plan.problem)
            reporter.doing(f"surveying the space of {', '.join(plan.families)}")
            surveyed = survey(plan.tree, plan.problem, plan.gpu, plan.families, carver=plan.carver)
            if not surveyed.entries:
                raise UsageError(f"all {surveyed.refused} configurations are refused: {surveyed.reasons[0]}")
        iterations = write_candidates(tree, plan.problem, plan.gpu, surveyed.entries)
        first = {entry.family: iterations[entry.key] for entry in reversed(surveyed.entries)}
        history = History(
            read(trials_path(plan.tree, *plan.place), TuningTrial)[0],
            read(picks_path(plan.tree, *plan.place), Pick)[0],
            plan.engine,
            describe(plan.tree.root, plan.gpu, plan.device, plan.problem.operator),
            {family: families_sha256(tree.root, iteration.path) for family, iteration in first.items()},
        )
        yield Search(plan, tree, surveyed, iterations, history, started)


def write_candidates(tree: Tree, problem: Problem, gpu: Gpu, entries: tuple[SpaceEntry, ...]) -> dict[str, Iteration]:
    """One iteration a candidate, by the candidate's key."""
    iterations, parent = {}, parent_of(problem)
    for number, entry in enumerate(entries):
        source = scaffold.kernel(entry.family, _IDEA.format(number), entry.config, parent, wrapped=entry.wrapped)
        iterations[entry.key] = write_iteration(tree, problem, gpu, f"candidate{number:05d}", "candidate", source)
    return iterations
