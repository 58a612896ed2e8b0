"""A tuning: survey the space, race it rung by rung through the judge, keep every outcome, pin the winner."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from harness.candidate import Settings
from harness.environment import describe
from harness.errors import InfrastructureError
from harness.gpus import Gpu
from harness.judge.statistics import Estimate
from harness.nvml import Device, compute_processes
from harness.problem import Problem
from harness.processes import start_forkserver
from harness.progress import reporting
from harness.records import Block, Cause, Environment, Record, Status, append, read
from harness.run import Plan, alone, run
from harness.sources import families_sha256
from harness.static import toolchain
from harness.tree import Iteration, Tree
from harness.tune import pin, scratch
from harness.tune.progress import Narrator
from harness.tune.race import RUNGS, Field, Rung, race
from harness.tune.record import Pick, Standing, Trial, of_record, picks_path, standings, trials_path
from harness.tune.survey import Entry, Surveyed, survey

ENGINE = "tilebench"
RELEASE_S: Final = 10.0
TRIES: Final = 2  # of what the machine kept from being measured
EXHAUSTIVE = "exhaustive"  # the race with its last rung alone


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
    rungs: tuple[Rung, ...] = RUNGS
    engine: str = ENGINE

    @property
    def place(self) -> tuple[str, str, str]:
        return self.gpu.key, self.problem.shape_key, self.model


@dataclass(slots=True)
class Tuned:
    """The outcome: the pick with its iteration, None where no candidate passed; the candidates, best first."""

    surveyed: Surveyed
    order: list[Standing]
    pick: Pick | None = None
    measured: int = 0
    reused: int = 0
    first_failure: str = ""


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


@dataclass(slots=True)
class _Course:
    """The race as it runs: candidates in the scratch tree, and what is known of them."""

    plan: TunePlan
    iterations: dict[str, Iteration]
    entries: dict[str, Entry]
    number: int
    yard: Tree
    narrator: Narrator
    trials: list[Trial]
    measured: int = 0
    reused: int = 0
    known: dict[tuple[str, int], Trial] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known = {(each.key, each.rung): each for each in self.trials if each.key in self.entries}

    def measure(self, rung: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[Block] | None]]:
        """One rung through the judge; what is known of it already is not measured again."""
        waiting = self._waiting(rung, keys)
        self.reused += len(keys) - len(waiting)
        for _ in range(TRIES):
            if waiting:
                self._judge(rung, waiting, len(keys))
                waiting = self._waiting(rung, keys)
        if waiting:
            reason = self.known[waiting[0], rung].reason
            raise InfrastructureError(f"{self.plan.problem}: {reason}; the race stands still, the same command goes on")
        for key in keys:
            trial = self.known[key, rung]
            yield key, trial.measurement.blocks if trial.measurement is not None else None

    def _waiting(self, rung: int, keys: Sequence[str]) -> list[str]:
        """Those without an outcome of their own; a fault of the machine is held against no candidate."""
        known = ((key, self.known.get((key, rung))) for key in keys)
        return [key for key, trial in known if trial is None or trial.cause is Cause.REFEREE]

    def _judge(self, rung: int, waiting: Sequence[str], left: int) -> None:
        """Candidates through the line, each outcome kept before the next is measured."""
        by_name = {self.iterations[key].model: key for key in waiting}

        def keep(record: Record) -> None:
            entry = self.entries[by_name[record.model]]
            trial = of_record(
                record,
                model=self.plan.model,
                engine=self.plan.engine,
                race=self.number,
                rung=rung,
                family=entry.family,
                config=entry.config,
                origin=entry.origin,
            )
            append(trials_path(self.plan.tree, *self.plan.place), trial)
            self.known[entry.key, rung] = trial
            self.trials.append(trial)
            self.measured += 1
            self.narrator.heard(entry, trial)

        judged = Plan(
            tree=self.yard,
            gpu=self.plan.gpu,
            device=self.plan.device,
            iterations=tuple(self.iterations[key] for key in waiting),
            settings=self.plan.rungs[rung].settings(self.plan.settings),
            again=True,
        )
        released(self.plan.device)
        with self.narrator.rung(rung, len(self.plan.rungs), left, len(waiting)) as reporter:
            run(judged, reporter, keep)


def tune(plan: TunePlan) -> Tuned:
    """Carry a tuning out; Ctrl-C loses nothing, and the next call goes on."""
    started = time.monotonic()
    with alone(plan.tree, plan.gpu, plan.device), scratch.scratch(plan.tree) as yard:
        surveyed = look_around(plan)
        iterations = scratch.write(yard, plan.problem, plan.gpu, surveyed.entries)
        environment = describe(plan.tree.root, plan.gpu, plan.device, plan.problem.operator)
        families = hashes(yard, surveyed.entries, iterations)
        history = History.of(plan)
        number = history.race(plan.engine, environment, families, again=plan.again)
        course = _Course(
            plan=plan,
            iterations=iterations,
            entries={entry.key: entry for entry in surveyed.entries},
            number=number,
            yard=yard,
            narrator=Narrator(surveyed.entries),
            trials=history.of_race(number, plan.engine, environment, families),
        )
        finish = race([entry.key for entry in surveyed.entries], course.measure, plan.rungs)
    raced = [trial for trial in course.trials if trial.key in course.entries]
    order = _in_order(standings(raced), finish)
    tuned = Tuned(surveyed, order, measured=course.measured, reused=course.reused)
    if not finish.left:
        tuned.first_failure = next((trial.reason or "" for trial in raced if trial.reason), "")
        return tuned
    winner = course.entries[finish.left[0]]
    baseline = next(trial.measurement.baseline for trial in raced if trial.measurement is not None)
    idea = pin.raced(surveyed.entries, order, len(finish.left) - 1, baseline)
    keep_pick(
        plan,
        tuned,
        winner,
        idea,
        history,
        engine=plan.engine,
        race=number,
        failed=len(finish.failed),
        ties=tuple(finish.left[1:]),
        seconds=round(time.monotonic() - started, 3),
        environment=environment,
        families_sha256=families[winner.family],
        estimate=finish.estimates[winner.key],
    )
    return tuned


def released(device: Device | None) -> None:
    """Wait until the processes of the rung before are gone from the device too; the judge refuses to run beside any.

    Whoever waited for the end of a process has seen its pipe close, and the driver lets go of it a moment later.
    """
    until = time.monotonic() + RELEASE_S
    while device is not None and compute_processes(device) and time.monotonic() < until:
        time.sleep(0.1)


def look_around(plan: TunePlan) -> Surveyed:
    """The survey, with the forkserver that it and the judge need."""
    if not plan.gpu.is_cpu:
        toolchain.find().require()
    with reporting(0) as reporter:
        reporter.doing("importing torch and TileLang")
        start_forkserver(plan.gpu, plan.device)
        reporter.doing(f"surveying the space of {', '.join(plan.families)}")
        return survey(plan.tree, plan.problem, plan.gpu, plan.families, carver=plan.carver)


def hashes(yard: Tree, entries: Sequence[Entry], iterations: dict[str, Iteration]) -> dict[str, str]:
    """Of each family, the hash of the modules that its candidates import."""
    first = {entry.family: iterations[entry.key] for entry in reversed(entries)}
    return {family: families_sha256(yard.root, iteration.path) for family, iteration in first.items()}


def keep_pick(
    plan: TunePlan,
    tuned: Tuned,
    winner: Entry,
    idea: str,
    history: History,
    *,
    estimate: Estimate | None = None,
    **facts: object,
) -> None:
    """Pin the winner, unless an earlier search has pinned the same, and record the pick."""
    folder = plan.tree.folder(plan.gpu.key) / "srcs" / plan.problem.shape_key / plan.model
    iteration = pin.already(plan.tree, folder, history.picks, winner)
    if iteration is None:
        iteration = pin.pin(plan.tree, plan.problem, plan.gpu, plan.model, winner, idea, plan.parent)
    tuned.pick = Pick(
        schema=1,
        recorded_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        gpu=plan.gpu.key,
        shape_key=plan.problem.shape_key,
        model=plan.model,
        family=winner.family,
        config=winner.config,
        iteration=iteration.name,
        candidates=len(tuned.surveyed.entries),
        refused=tuned.surveyed.refused,
        ratio=estimate.ratio if estimate else None,
        ratio_low=estimate.low if estimate else None,
        ratio_high=estimate.high if estimate else None,
        **facts,  # type: ignore[arg-type]
    )
    if not _repeats(tuned.pick, history.picks):
        append(picks_path(plan.tree, *plan.place), tuned.pick)


def _repeats(pick: Pick, picks: Sequence[Pick]) -> bool:
    """Whether a race that was over already was only asked for again."""
    return any((each.race, each.engine, each.iteration) == (pick.race, pick.engine, pick.iteration) for each in picks)


def _in_order(found: list[Standing], finish: Field) -> list[Standing]:
    """Those left at the finish first: a dropped one may have had a higher ratio over fewer blocks."""
    left = {key: place for place, key in enumerate(finish.left)}
    failed = [each for each in found if each.trial.status is not Status.PASSED]
    others = [each for each in found if each.trial.key not in left and each.trial.status is Status.PASSED]
    return [*sorted((e for e in found if e.trial.key in left), key=lambda e: left[e.trial.key]), *others, *failed]
