"""A tuning by race: screen the candidates, judge them rung by rung in the scratch tree, pin the winner."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from harness.boards import sustained
from harness.catalog.device_kind import kind_of
from harness.errors import InfrastructureError
from harness.extras.tune import pin
from harness.extras.tune.progress import Narrator
from harness.extras.tune.race import RaceField, race
from harness.extras.tune.record import AT_LIMIT, SCREEN, RankedCandidate, TuningTrial, ranked
from harness.extras.tune.screen import Screened, screen
from harness.extras.tune.search import Search, Tuned, TunePlan, searching
from harness.extras.tune.survey import SpaceEntry
from harness.judge import fault_attribution
from harness.judge.child.brief import Brief
from harness.judge.sustaining import SustainedSettings
from harness.machine.nvml import released
from harness.records.base import Cause, Regime, Status
from harness.records.results import BlockPair, Record
from harness.records.sustained import SustainedMeasurement, SustainedRecord
from harness.runs.run import Plan, run

FINALISTS: Final = 4  # so many are measured at the power limit at least
RATIO: Final = ("ratio", "ratio_low", "ratio_high")


def tune(plan: TunePlan) -> Tuned:
    """Carry a tuning out. Ctrl-C loses nothing: the next call continues."""
    with searching(plan) as search:
        runner = RaceRunner(search, search.history.race(again=plan.again))
        screened_ms = runner.screen() if plan.screened else {}
        tolerance = kind_of(plan.gpu).screen_tolerance
        finish = race(runner.compiled(), runner.measure, plan.rungs, screened_ms, tolerance)
        raced = [trial for trial in runner.trials if trial.key in runner.entries]
        order = _in_order(ranked(raced), finish)
        tuned = Tuned(search.surveyed, order, None, runner.measured, runner.reused, len(finish.spared))
        if not finish.left:
            tuned.first_failure = next((trial.reason or "" for trial in raced if trial.reason), "")
            return tuned
        leader = winner = order[0]
        baseline = next(trial.measurement.baseline for trial in raced if trial.measurement is not None)
        idea = pin.raced(search.surveyed.entries, order, len(finish.left) - 1, baseline)
        found: dict[str, Any] = {}
        if plan.objective is Regime.SUSTAINED:
            at_limit = runner.at_limit(finalists(order, len(finish.left)))
            tuned.measured, tuned.reused = runner.measured, runner.reused
            found["objective"] = plan.objective
            if at_limit:
                key = leading_at_limit(leader.trial.key, at_limit)
                winner = next(each for each in order if each.trial.key == key)
                idea = pin.sustained(search.surveyed.entries, at_limit, winner, leader)
                found |= {f"sustained_{name}": getattr(at_limit[key], name) for name in RATIO}
        assert winner.estimate is not None
        search.pin(
            tuned,
            runner.entries[winner.trial.key],
            idea,
            runner.number,
            ties=tuple(key for key in finish.left if key != winner.trial.key),
            ratio=winner.estimate.ratio,
            ratio_low=winner.estimate.low,
            ratio_high=winner.estimate.high,
            **found,
        )
    return tuned


def finalists(order: Sequence[RankedCandidate], left: int) -> list[RankedCandidate]:
    """The candidates that are measured at the power limit: those left in the race, and the next few that passed."""
    return [each for each in order if each.estimate is not None][: max(FINALISTS, left)]


def leading_at_limit(leader: str, found: Mapping[str, SustainedMeasurement]) -> str:
    """The key of the candidate to pin: the first at the power limit where the race's leader is certainly behind it."""
    first = max(found, key=lambda key: found[key].ratio)
    held = found.get(leader)
    return first if held is None or found[first].ratio_low > held.ratio_high else leader


def _in_order(found: list[RankedCandidate], finish: RaceField) -> list[RankedCandidate]:
    """Candidates left at the finish come first: one that was dropped may have a higher ratio over fewer blocks."""
    left = {key: place for place, key in enumerate(finish.left)}

    def place(each: RankedCandidate) -> tuple[int, int]:
        if each.trial.key in left:
            return 0, left[each.trial.key]
        return (1 if each.trial.status is Status.PASSED else 2), 0

    return sorted(found, key=place)


class RaceRunner:
    """One race: its candidates by key, and their outcomes of this call and of earlier ones."""

    def __init__(self, search: Search, number: int) -> None:
        self.search, self.plan, self.number = search, search.plan, number
        self.entries = {entry.key: entry for entry in search.surveyed.entries}
        self.narrator = Narrator(search.surveyed.entries)
        self.measured = self.reused = 0
        self.trials: list[TuningTrial] = []
        self._known: dict[tuple[str, int], list[TuningTrial]] = {}  # by candidate and rung, newest last
        for trial in search.history.of_race(number):
            self._know(trial)

    def screen(self) -> dict[str, float]:
        """ms a launch of each candidate that ran in the screen; candidates with any outcome are not screened again."""
        heard = {key for key, _ in self._known}
        unknown = [entry for key, entry in self.entries.items() if key not in heard]
        if unknown:
            brief = Brief(self.plan.tree.root, self.plan.problem, self.plan.gpu, None)
            with self.narrator.screen(len(unknown)):
                screen(brief, unknown, self.plan.settings, self.search.tree.root, self._keep_screened)
        screened = (self._standing(key, SCREEN) for key in self.entries)
        return {each.key: each.latency_ms for each in screened if each is not None and each.latency_ms is not None}

    def compiled(self) -> list[str]:
        """The candidates to race: all but those that did not compile in the screen."""
        screened = {key: self._standing(key, SCREEN) for key in self.entries}
        return [key for key, trial in screened.items() if trial is None or trial.status is Status.PASSED]

    def measure(self, rung: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[BlockPair] | None]]:
        """Take candidates through one rung; known outcomes are not measured again."""
        waiting = [key for key in keys if self._standing(key, rung) is None]
        self.reused += len(keys) - len(waiting)
        if waiting:
            self._judge(rung, waiting, len(keys))
        for key in keys:
            trial = self._outcome(key, rung)
            yield key, trial.measurement.blocks if trial.measurement is not None else None

    def at_limit(self, finalists: Sequence[RankedCandidate]) -> dict[str, SustainedMeasurement]:
        """The sustained measurements by key; known outcomes are not measured again."""
        keys = [each.trial.key for each in finalists]
        waiting = [key for key in keys if self._standing(key, AT_LIMIT) is None]
        self.reused += len(keys) - len(waiting)
        if waiting:
            self._sustain(waiting)
        found = {key: self._outcome(key, AT_LIMIT).sustained for key in keys}
        return {key: measured for key, measured in found.items() if measured is not None}

    def _sustain(self, waiting: Sequence[str]) -> None:
        by_model = {self.search.iterations[key].model: self.entries[key] for key in waiting}
        newest = {trial.key: trial.measurement for trial in self.trials if trial.measurement is not None}

        def keep(record: SustainedRecord) -> None:
            entry = by_model[record.model]
            self._keep(entry, AT_LIMIT, record.cause, record.reason, sustained=record.measurement)
            self.measured += 1
            self.narrator.sustained(entry, self.trials[-1])

        judged = Plan(self.search.tree, self.plan.gpu, self.plan.device, (), self.plan.settings, again=True)
        released(self.plan.device)
        with self.narrator.bar(len(waiting)) as reporter:
            paired = {self.search.iterations[key]: newest[key] for key in waiting}
            sustained.run(judged, paired, SustainedSettings(), reporter, keep)

    def _outcome(self, key: str, rung: int) -> TuningTrial:
        """The outcome that counts. Raises InfrastructureError where the machine has spoilt it twice."""
        trial = self._standing(key, rung)
        if trial is None:
            reason = self._known[key, rung][-1].reason
            raise InfrastructureError(
                f"{self.plan.problem}: {reason}; the race has stopped, and the same command continues it"
            )
        return trial

    def _judge(self, rung: int, waiting: Sequence[str], left: int) -> None:
        """Judge candidates, and keep each outcome before the next is measured."""
        by_model = {self.search.iterations[key].model: self.entries[key] for key in waiting}

        def keep(record: Record) -> None:
            measurement = record.measurement if record.status is Status.PASSED else None
            entry = by_model[record.model]
            self._keep(entry, rung, record.cause, record.reason, measurement=measurement)
            self.measured += 1
            self.narrator.heard(entry, self.trials[-1])

        judged = Plan(
            tree=self.search.tree,
            gpu=self.plan.gpu,
            device=self.plan.device,
            iterations=tuple(self.search.iterations[key] for key in waiting),
            settings=self.plan.rungs[rung].settings(self.plan.settings),
            again=True,
        )
        released(self.plan.device)
        with self.narrator.rung(rung, len(self.plan.rungs), left, len(waiting)) as reporter:
            run(judged, reporter, keep)

    def _keep_screened(self, found: Screened) -> None:
        self.narrator.screened(found)
        if found.launch_ms is not None or found.cause is not None:  # else the race will find out why it does not run
            self._keep(found.entry, SCREEN, found.cause, found.reason, latency_ms=found.launch_ms)

    def _keep(self, entry: SpaceEntry, rung: int, cause: Cause | None, reason: str | None, **found: Any) -> None:
        self._know(self.search.keep(entry, self.number, rung, cause, reason, **found))

    def _know(self, trial: TuningTrial) -> None:
        self.trials.append(trial)
        if trial.key in self.entries:
            self._known.setdefault((trial.key, trial.rung), []).append(trial)

    def _standing(self, key: str, rung: int) -> TuningTrial | None:
        """The outcome that counts; None where a measurement is due, such as after a fault of the machine."""
        return fault_attribution.standing(reversed(self._known.get((key, rung), ())), self.plan.gpu)
