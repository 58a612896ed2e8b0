"""The other engine: TileLang's autotuner over the same space, under a deadline, its pick pinned the same way."""

import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from harness.errors import InfrastructureError, UsageError
from harness.extras.tune import pin, scratch
from harness.extras.tune.autotuner import AutotunerOptions, GaveUp, Order, Picked, Timed, run_autotuner
from harness.extras.tune.plan import History, TunePlan
from harness.extras.tune.record import Trial, standings, trials_path
from harness.extras.tune.run import Tuned, hashes, keep_pick, look_around
from harness.extras.tune.space import constant, words
from harness.extras.tune.survey import Entry, Surveyed
from harness.judge.child.brief import Brief
from harness.judge.processes import UNLIMITED_BYTES, Ended, Worker
from harness.machine.progress import reporting
from harness.records.base import Cause, Environment
from harness.records.environment import describe
from harness.records.store import append
from harness.runs.run import alone

ENGINE = "tilelang"
LOG = "autotuner.log"


def autotune(plan: TunePlan, options: AutotunerOptions, limit_s: float) -> Tuned:
    """Run TileLang's autotuner over a family's space; raises UsageError for several families at once."""
    if len(plan.families) != 1:
        raise UsageError("TileLang's autotuner searches one family at a time; name one with --family")
    started = time.monotonic()
    with alone(plan.tree, plan.gpu, plan.device), scratch.scratch(plan.tree) as yard:
        surveyed = look_around(plan)
        iterations = scratch.write(yard, plan.problem, plan.gpu, surveyed.entries)
        environment = describe(plan.tree.root, plan.gpu, plan.device, plan.problem.operator)
        families = hashes(yard, surveyed.entries, iterations)
        history = History.of(plan)
        number = history.race(ENGINE, environment, families, again=True)
        known = None if plan.again else _known(history, surveyed, environment, families)
        if known is not None:
            return known
        order = Order(
            brief=Brief(plan.tree.root, plan.problem, plan.gpu, None),
            family=plan.families[0],
            families_sha256=families[plan.families[0]],
            device=environment.device,
            configs=tuple(entry.config for entry in surveyed.entries),
            options=options,
            folder=Path(tempfile.mkdtemp(dir=yard.root)),
        )
        picked, trials = _searched(plan, order, surveyed, number, environment, limit_s)
    tuned = Tuned(surveyed, standings(trials), measured=len(trials))
    winner = surveyed.entries[picked.index]
    idea = pin.autotuned(surveyed.entries, tuned.order, picked.latency_ms)
    keep_pick(
        plan,
        tuned,
        winner,
        idea,
        history,
        engine=ENGINE,
        race=number,
        failed=sum(trial.latency_ms is None for trial in trials),
        ties=(),
        seconds=round(time.monotonic() - started, 3),
        environment=environment,
        families_sha256=families[winner.family],
        latency_ms=picked.latency_ms,
    )
    return tuned


def _known(history: History, surveyed: Surveyed, environment: Environment, families: dict[str, str]) -> Tuned | None:
    """The outcome of the newest search of the same space, sources, versions and device."""
    keys = {entry.key: entry for entry in surveyed.entries}
    for pick in reversed(history.picks):
        same = pick.engine == ENGINE and pick.environment == environment
        if not same or families.get(pick.family) != pick.families_sha256:
            continue
        trials = history.of_race(pick.race, ENGINE, environment, families)
        if {trial.key for trial in trials} == keys.keys():
            return Tuned(surveyed, standings(trials), pick=pick, reused=len(trials))
    return None


def _searched(
    plan: TunePlan, order: Order, surveyed: Surveyed, number: int, environment: Environment, limit_s: float
) -> tuple[Picked, list[Trial]]:
    """The child's answers, each on the disk before the next is heard."""
    trials: list[Trial] = []
    until = time.monotonic() + limit_s
    fixed = constant(order.configs)
    worker = Worker("autotuner", run_autotuner, (order,), UNLIMITED_BYTES)
    try:
        with reporting(len(order.configs)) as reporter:
            reporter.doing("TileLang's autotuner compiles and times")
            while True:
                said = worker.hear(Timed | Picked | GaveUp, max(0.0, until - time.monotonic()))
                if not isinstance(said, Timed):
                    break
                trial = _trial(plan, order, surveyed.entries[said.index], said, number, environment)
                append(trials_path(plan.tree, *plan.place), trial)
                trials.append(trial)
                took = f"failed: {said.reason}" if said.latency_ms is None else f"{said.latency_ms:.4g} ms"
                reporter.finished(f"{words(trial.config, fixed)}: {took}")
    except Ended as ended:
        reason = (
            f"TileLang's autotuner did not end within {limit_s:g} s" if ended.cause is Cause.TIMEOUT else ended.reason
        )
        raise InfrastructureError(
            f"{plan.problem}: {reason}; {len(trials)} of {len(order.configs)} candidates were timed and recorded, "
            f"see {plan.tree.short(_log(plan, order))}, or allow more with --limit"
        ) from None
    finally:
        worker.end()
        _log(plan, order)
    if isinstance(said, GaveUp):
        raise InfrastructureError(
            f"{plan.problem}: TileLang's autotuner gave up: {said.reason}; see {plan.tree.short(_log(plan, order))}"
        )
    assert isinstance(said, Picked)
    return said, trials


def _trial(plan: TunePlan, order: Order, entry: Entry, said: Timed, number: int, environment: Environment) -> Trial:
    return plan.timed(
        entry,
        said.latency_ms,
        Cause.RUNTIME if said.latency_ms is None else None,
        said.reason,
        engine=ENGINE,
        race=number,
        rung=0,
        families_sha256=order.families_sha256,
        environment=environment,
    )


def _log(plan: TunePlan, order: Order) -> Path:
    """The autotuner's own log, kept beside the records."""
    kept = trials_path(plan.tree, *plan.place).with_name(LOG)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(order.folder / LOG, kept)
    return kept
