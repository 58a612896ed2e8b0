"""A run of profiles: which iterations, what must be true of them before, and where the findings go."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from harness.boards import leaderboard
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.extras.profile.children import Children
from harness.extras.profile.ncu import CountersRefused, Missing, Ncu, require
from harness.extras.profile.session import Refusal, Session
from harness.extras.profile.words import line
from harness.judge import contract
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.machine import cores, files
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.records.environment import describing
from harness.records.profiles import Outcome, ProfileRecord, newest
from harness.records.results import Environment, Record, Stage, Status, append, read
from harness.runs.run import Plan, alone, run
from harness.runs.run_ahead import run_ahead

CORES_PER_LANE: Final = 4  # one is counted while others are imported and built
MOST_LANES: Final = 3


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """What to profile, and how; ``deadline_s`` is for one iteration, its wait for the device included."""

    tree: Tree
    gpu: Gpu
    device: Device | None
    iterations: tuple[Iteration, ...]
    settings: Settings
    counters: bool = True
    again: bool = False
    deadline_s: float = 180.0


@dataclass(slots=True)
class Profiles:
    """What a run gave. ``remedy`` is said at the end where counters were not to be had."""

    records: list[ProfileRecord] = field(default_factory=list)
    reused: int = 0
    remedy: str | None = None

    @property
    def exit_code(self) -> ExitCode:
        outcomes = {record.outcome for record in self.records}
        if self.remedy is not None or Outcome.FAILED in outcomes:
            return ExitCode.INFRASTRUCTURE
        return ExitCode.REJECTED if Outcome.REFUSED in outcomes else ExitCode.PASSED


def leaders(tree: Tree, gpu: Gpu, selection: Selection) -> tuple[Iteration, ...]:
    """Of each problem the best of the newest environment that is no library call; raises UsageError."""
    boards, _ = leaderboard.boards(tree, gpu.key, selection)
    first: dict[str, tuple[str, str]] = {}
    for board in boards:
        for row in board.rows:
            if row.rank is not None and not row.iteration.startswith("iter000_"):
                first.setdefault(board.problem, (row.model, row.iteration))
    found = tree.scan(gpu.key, selection)[0]
    chosen = tuple(each for each in found if first.get(each.shape_key) == (each.model, each.name))
    if not chosen:
        raise UsageError(
            f"nothing is measured under tuning/{gpu.key}/ that could lead; run 'tilebench bench' first, or name an "
            "iteration with --iter"
        )
    return chosen


def profile(plan: ProfilePlan, reporter: Reporter) -> Profiles:
    """Profile each iteration that is verified; every outcome is on the disk as soon as it is known."""
    environment = describing(plan.tree.root, plan.gpu, plan.device)
    results = Profiles()
    waiting = []
    for iteration in plan.iterations:
        known = None if plan.again or not plan.counters else _reusable(plan.tree, iteration, environment)
        if known is None:
            waiting.append(iteration)
        else:
            results.records.append(known)
            results.reused += 1
            reporter.finished(line(known, reused=True))
    if not waiting:
        return results
    ncu: Ncu | None = None
    if plan.counters:
        try:
            ncu = require()
        except Missing as missing:
            results.remedy = str(missing)
    with files.scratch("profile") as scratch:
        children = Children()
        session = Session(plan.tree, plan.gpu, plan.device, environment, children, scratch, plan.deadline_s)
        ready = []
        for iteration, complaint in _verified(plan, waiting, reporter):
            if complaint is None:
                ready.append(iteration)
            else:
                _keep(plan, results, session.failed(iteration, Outcome.REFUSED, complaint), reporter)
        with alone(plan.tree, plan.gpu, plan.device):
            for record, remedy in _carry_out(ready, session, ncu, children, reporter):
                results.remedy = results.remedy or remedy
                _keep(plan, results, record, reporter)
    return results


def _reusable(tree: Tree, iteration: Iteration, environment: Callable[[str], Environment]) -> ProfileRecord | None:
    """The newest profile of the same thing, whose report still lies beside it."""
    profiles, _ = read(tree.profiles(iteration.gpu, iteration.shape_key, iteration.model), ProfileRecord)
    same = [each for each in profiles if each.environment == environment(iteration.problem.operator)]
    sources = source_sha256(iteration.path), families_sha256(tree.root, iteration.path)
    known = newest(same, iteration.name, *sources)
    table = tree.ncu(iteration, "csv")
    if known is None or not table.is_file():
        return None
    return known if sha256(table.read_bytes()).hexdigest() == known.csv_sha256 else None


def _verified(
    plan: ProfilePlan, iterations: list[Iteration], reporter: Reporter
) -> Iterator[tuple[Iteration, str | None]]:
    """Each iteration, with the complaint of the contract or of its verification; what is not verified yet is, first."""
    unproven = []
    for iteration in iterations:
        try:
            contract.check(iteration)
        except contract.Breach as breach:
            yield iteration, f"contract: {breach}"
            continue
        if _proven(plan.tree, iteration):
            yield iteration, None
        else:
            unproven.append(iteration)
    if not unproven:
        return
    verification = Plan(plan.tree, plan.gpu, plan.device, tuple(unproven), plan.settings, upto=Stage.VERIFY)
    records = run(verification, _Aside(reporter)).records
    outcomes = {(record.shape_key, record.model, record.iteration): record for record in records}
    for iteration in unproven:
        record = outcomes[iteration.shape_key, iteration.model, iteration.name]
        yield iteration, None if record.status is Status.PASSED else f"{record.stage}: {record.reason}"


def _proven(tree: Tree, iteration: Iteration) -> bool:
    """Whether the newest record of exactly this source, and these families, passed its verification."""
    records, _ = read(tree.records(iteration.gpu, iteration.shape_key, iteration.model), Record)
    source, families = source_sha256(iteration.path), families_sha256(tree.root, iteration.path)
    same = [
        record
        for record in records
        if record.iteration == iteration.name
        and record.source_sha256 == source
        and record.families_sha256 == families
        and record.stage in (Stage.VERIFY, Stage.BENCH)
    ]
    return bool(same) and same[-1].status is Status.PASSED


def _carry_out(
    iterations: list[Iteration], session: Session, ncu: Ncu | None, children: Children, reporter: Reporter
) -> Iterator[tuple[ProfileRecord, str | None]]:
    """Each record, in order, with the remedy where counters were refused.

    Some iterations go at a time: one has the device, the others are imported and built.
    """
    lanes = max(1, min(MOST_LANES, cores.usable() // CORES_PER_LANE, len(iterations)))
    remedies: list[str] = []

    def find(iteration: Iteration) -> tuple[ProfileRecord, str | None]:
        if ncu is not None and not remedies:
            try:
                return session.count(iteration, ncu), None
            except CountersRefused as refused:
                remedies.append(str(refused))  # it holds for all: the others need not try
        return session.time(iteration), next(iter(remedies), None)

    def work(iteration: Iteration) -> tuple[ProfileRecord, str | None]:
        try:
            return find(iteration)
        except Refusal as refusal:
            return session.failed(iteration, Outcome.REFUSED, str(refusal)), next(iter(remedies), None)
        except InfrastructureError as error:
            return session.failed(iteration, Outcome.FAILED, str(error)), next(iter(remedies), None)

    reporter.doing(f"profiling {len(iterations)} iterations, {lanes} at a time")
    with run_ahead(work, iterations, lanes, window=2 * lanes, abort=children.stop) as records:
        yield from records


def _keep(plan: ProfilePlan, results: Profiles, record: ProfileRecord, reporter: Reporter) -> None:
    append(plan.tree.profiles(record.gpu, record.shape_key, record.model), record)
    results.records.append(record)
    reporter.finished(line(record))


@dataclass(frozen=True, slots=True)
class _Aside:
    """Passes on what a verification says, without counting it as a profile."""

    reporter: Reporter

    def doing(self, text: str) -> None:
        self.reporter.doing(text)

    def finished(self, text: str, *, advance: bool = True) -> None:
        self.reporter.finished(text, advance=False)
