"""The course: a race as it runs, its candidates screened and judged in the scratch tree, each outcome kept at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError
from harness.extras.tune.plan import TunePlan
from harness.extras.tune.progress import Narrator
from harness.extras.tune.record import SCREEN, Trial, of_record, trials_path
from harness.extras.tune.screen import Screened, screen
from harness.extras.tune.survey import Entry
from harness.judge import fault_attribution
from harness.judge.child.brief import Brief
from harness.machine.nvml import released
from harness.records.base import Environment, Status
from harness.records.results import BlockPair, Record
from harness.records.store import append
from harness.runs.run import Plan, run


@dataclass(slots=True)
class Course:
    """The race as it runs: candidates in the scratch tree, and what is known of them."""

    plan: TunePlan
    iterations: dict[str, Iteration]
    entries: dict[str, Entry]
    number: int
    yard: Tree
    narrator: Narrator
    trials: list[Trial]
    environment: Environment
    families: Mapping[str, str]  # hashes of their sources
    measured: int = 0
    reused: int = 0
    known: dict[tuple[str, int], list[Trial]] = field(default_factory=dict)  # by rung, newest last

    def __post_init__(self) -> None:
        for each in self.trials:
            self._know(each)

    def screen(self) -> dict[str, float]:
        """ms of a launch of each candidate that ran in the screen; what an earlier call found is not sought again."""
        heard = {key for key, _ in self.known}
        unknown = [entry for key, entry in self.entries.items() if key not in heard]
        if unknown:
            brief = Brief(self.plan.tree.root, self.plan.problem, self.plan.gpu, None)
            with self.narrator.screen(len(unknown)):
                screen(brief, unknown, self.plan.settings, self.yard.root, self._keep_screened)
        screened = (self._standing(key, SCREEN) for key in self.entries)
        return {each.key: each.latency_ms for each in screened if each is not None and each.latency_ms is not None}

    def compiled(self) -> list[str]:
        """Who can be raced: all but those that did not compile in the screen."""
        screened = {key: self._standing(key, SCREEN) for key in self.entries}
        return [key for key, trial in screened.items() if trial is None or trial.status is Status.PASSED]

    def _keep_screened(self, found: Screened) -> None:
        self.narrator.screened(found)
        if found.launch_ms is None and found.cause is None:
            return  # the race will tell why it does not run
        entry = found.entry
        trial = self.plan.timed(
            entry,
            found.launch_ms,
            found.cause,
            found.reason,
            race=self.number,
            rung=SCREEN,
            families_sha256=self.families[entry.family],
            environment=self.environment,
        )
        self._keep(trial)

    def _keep(self, trial: Trial) -> None:
        """On the disk before the next is measured."""
        append(trials_path(self.plan.tree, *self.plan.place), trial)
        self.trials.append(trial)
        self._know(trial)

    def _know(self, trial: Trial) -> None:
        if trial.key in self.entries:
            self.known.setdefault((trial.key, trial.rung), []).append(trial)

    def _standing(self, key: str, rung: int) -> Trial | None:
        """The outcome that counts; None where another measurement is due: a machine's fault is held against nobody."""
        return fault_attribution.standing(reversed(self.known.get((key, rung), ())), self.plan.gpu)

    def measure(self, rung: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[BlockPair] | None]]:
        """One rung through the judge; what is known of it already is not measured again."""
        waiting = [key for key in keys if self._standing(key, rung) is None]
        self.reused += len(keys) - len(waiting)
        if waiting:
            self._judge(rung, waiting, len(keys))
        for key in keys:
            trial = self._standing(key, rung)
            if trial is None:
                reason = self.known[key, rung][-1].reason
                raise InfrastructureError(
                    f"{self.plan.problem}: {reason}; the race stands still, the same command goes on"
                )
            yield key, trial.measurement.blocks if trial.measurement is not None else None

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
            self._keep(trial)
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
