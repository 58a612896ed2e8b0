"""The other engine: TileLang's autotuner over the same space, under a deadline; its pick is pinned the same way."""

import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from harness.errors import InfrastructureError, UsageError
from harness.extras.tune import pin
from harness.extras.tune.autotuner import AutotunerOptions, AutotunerOrder, Picked, Timed, run_autotuner
from harness.extras.tune.record import TuningTrial, ranked, trials_path
from harness.extras.tune.search import Search, Tuned, TunePlan, searching
from harness.extras.tune.space import constant, words
from harness.judge.child.brief import Brief
from harness.judge.messages import Trouble
from harness.judge.processes import UNLIMITED_BYTES, Ended, Worker
from harness.machine.progress import reporting
from harness.records.base import Cause

LOG = "autotuner.log"  # the autotuner's own; it is kept beside the records


def autotune(plan: TunePlan, options: AutotunerOptions) -> Tuned:
    """Run TileLang's autotuner over a family's space; raises UsageError for several families at once."""
    if len(plan.families) != 1:
        raise UsageError("TileLang's autotuner searches one family at a time; name one with --family")
    with searching(plan) as search:
        known = None if plan.again else _known(search)
        if known is not None:
            return known
        entries = search.surveyed.entries
        order = AutotunerOrder(
            brief=Brief(plan.tree.root, plan.problem, plan.gpu, None),
            family=plan.families[0],
            families_sha256=search.history.families[plan.families[0]],
            device=search.history.environment.device,
            configs=tuple(entry.config for entry in entries),
            options=options,
            folder=Path(tempfile.mkdtemp(dir=search.tree.root)),
        )
        race = search.history.race(again=True)
        picked, trials = _run(search, order, race)
        tuned = Tuned(search.surveyed, ranked(trials), measured=len(trials))
        idea = pin.autotuned(entries, tuned.order, picked.latency_ms)
        search.pin(tuned, entries[picked.index], idea, race, ties=(), latency_ms=picked.latency_ms)
    return tuned


def _known(search: Search) -> Tuned | None:
    """The outcome of the newest search of the same space, sources, versions and device."""
    keys = {entry.key for entry in search.surveyed.entries}
    for pick in filter(search.history.holds, reversed(search.history.picks)):
        trials = search.history.of_race(pick.race)
        if {trial.key for trial in trials} == keys:
            return Tuned(search.surveyed, ranked(trials), pick=pick, reused=len(trials))
    return None


def _run(search: Search, order: AutotunerOrder, race: int) -> tuple[Picked, list[TuningTrial]]:
    """The pick and the outcomes of the child process; each outcome is on the disk before the next is awaited."""
    plan = search.plan
    trials: list[TuningTrial] = []
    until = time.monotonic() + order.options.limit
    fixed = constant(order.configs)
    kept = trials_path(plan.tree, *plan.place).with_name(LOG)
    log = plan.tree.short(kept)
    worker = Worker("autotuner", run_autotuner, (order,), UNLIMITED_BYTES)
    try:
        with reporting(len(order.configs)) as reporter:
            reporter.doing("TileLang's autotuner compiles and times")
            while True:
                said = worker.hear(Timed | Picked | Trouble, max(0.0, until - time.monotonic()))
                if not isinstance(said, Timed):
                    break
                cause = Cause.RUNTIME if said.latency_ms is None else None
                entry = search.surveyed.entries[said.index]
                trial = search.keep(entry, race, 0, cause, said.reason, latency_ms=said.latency_ms)
                trials.append(trial)
                took = f"failed: {said.reason}" if said.latency_ms is None else f"{said.latency_ms:.4g} ms"
                reporter.finished(f"{words(trial.config, fixed)}: {took}")
    except Ended as ended:
        late = f"TileLang's autotuner did not end within {order.options.limit:g} s"
        raise InfrastructureError(
            f"{plan.problem}: {late if ended.cause is Cause.TIMEOUT else ended.reason}; {len(trials)} of "
            f"{len(order.configs)} candidates were timed and recorded, see {log}, or allow more with --limit"
        ) from None
    finally:
        worker.end()
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(order.folder / LOG, kept)
    if isinstance(said, Trouble):
        raise InfrastructureError(f"{plan.problem}: TileLang's autotuner gave up: {said.reason}; see {log}")
    assert isinstance(said, Picked)
    return said, trials
