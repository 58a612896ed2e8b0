"""A tuning: survey the space, screen it, race it rung by rung through the judge, pin the winner."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.catalog.device_kind import kind_of
from harness.catalog.tree import Iteration, Tree
from harness.evidence import toolchain
from harness.extras.tune import pin, scratch
from harness.extras.tune.plan import History, TunePlan
from harness.extras.tune.progress import Narrator
from harness.extras.tune.race import Field, race
from harness.extras.tune.race_runner import Course
from harness.extras.tune.record import Pick, Standing, picks_path, standings
from harness.extras.tune.survey import Entry, Surveyed, survey
from harness.judge.facts.hashes import families_sha256
from harness.judge.processes import start_forkserver
from harness.judge.statistics import Estimate
from harness.machine.progress import reporting
from harness.records.base import Status, now
from harness.records.environment import describe
from harness.records.store import append
from harness.runs.run import alone


@dataclass(slots=True)
class Tuned:
    """The outcome: the pick with its iteration, None where no candidate passed; the candidates, best first."""

    surveyed: Surveyed
    order: list[Standing]
    pick: Pick | None = None
    measured: int = 0
    reused: int = 0
    spared: int = 0  # too slow in the screen to be raced
    first_failure: str = ""


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
        course = Course(
            plan=plan,
            iterations=iterations,
            entries={entry.key: entry for entry in surveyed.entries},
            number=number,
            yard=yard,
            narrator=Narrator(surveyed.entries),
            trials=history.of_race(number, plan.engine, environment, families),
            environment=environment,
            families=families,
        )
        screened_ms = course.screen() if plan.screened else {}
        finish = race(course.compiled(), course.measure, plan.rungs, screened_ms, kind_of(plan.gpu).screen_tolerance)
    raced = [trial for trial in course.trials if trial.key in course.entries]
    order = _in_order(standings(raced), finish)
    tuned = Tuned(surveyed, order, measured=course.measured, reused=course.reused, spared=len(finish.spared))
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
        failed=sum(each.trial.status is not Status.PASSED for each in order),
        ties=tuple(finish.left[1:]),
        seconds=round(time.monotonic() - started, 3),
        environment=environment,
        families_sha256=families[winner.family],
        estimate=finish.estimates[winner.key],
    )
    return tuned


def look_around(plan: TunePlan) -> Surveyed:
    """The survey, with the forkserver that it and the judge need."""
    toolchain.find().require(cpu=plan.gpu.is_cpu)
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
        recorded_at=now(),
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
