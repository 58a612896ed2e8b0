"""A run of profiles: choose the iterations, verify them first, profile several at a time, append the records."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Final

from harness.boards import leaderboard
from harness.boards.power import PowerBound
from harness.catalog.families import Families
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import ExitCode, InfrastructureError
from harness.extras.profile.children import Children
from harness.extras.profile.ncu import CountersRefused, Ncu, NcuMissing, require
from harness.extras.profile.session import Refusal, Session
from harness.extras.profile.words import line
from harness.machine import cores, files
from harness.machine.progress import Reporter
from harness.records.base import Stage, Status, of_code
from harness.records.profiles import Bound, ProfileOutcome, ProfileRecord, newest
from harness.records.store import append, read
from harness.runs.rehearsal import operator_file
from harness.runs.run import Plan, alone, run
from harness.runs.run_ahead import run_ahead

CORES_PER_LANE: Final = 4  # one iteration is counted while others are imported and built
MOST_LANES: Final = 3


@dataclass(slots=True)
class Profiles:
    """The records of a run. ``remedy`` says how to make counters readable, if they were not."""

    records: list[ProfileRecord] = field(default_factory=list)
    remedy: str | None = None

    @property
    def exit_code(self) -> ExitCode:
        outcomes = {record.outcome for record in self.records}
        if self.remedy is not None or ProfileOutcome.FAILED in outcomes:
            return ExitCode.INFRASTRUCTURE
        return ExitCode.REJECTED if ProfileOutcome.REFUSED in outcomes else ExitCode.PASSED


def profile(plan: Plan, reporter: Reporter, *, counters: bool = True, deadline_s: float = 180.0) -> Profiles:
    """Profile each iteration that passes its verification; append each record as soon as it is known.

    ``deadline_s`` is for one iteration and includes its wait for the device.
    """
    results = Profiles()
    power = powers(plan.tree, plan.gpu.key, plan.iterations)
    waiting = []
    for iteration in plan.iterations:
        known = _reusable(plan, iteration) if counters else None
        if known is None or (iteration.key in power and known.bound is not Bound.POWER):
            waiting.append(iteration)
            continue
        results.records.append(known)
        reporter.finished(line(known, reused=True))
    if not waiting:
        return results
    ncu: Ncu | None = None
    try:
        ncu = require() if counters else None
    except NcuMissing as missing:
        results.remedy = str(missing)

    def keep(record: ProfileRecord) -> None:
        append(plan.tree.profiles(*record.ladder), record)
        results.records.append(record)
        reporter.finished(line(record))

    with files.scratch("profile") as scratch:
        ideas = Families.of(plan.tree.root).examples(plan.gpu)
        session = Session(
            plan.tree, plan.gpu, plan.device, plan.environment, Children(), scratch, deadline_s, power, ideas
        )
        ready = []
        for iteration, complaint in _verified(plan, waiting, reporter):
            if complaint is None:
                ready.append(iteration)
            else:
                keep(session.failed(iteration, ProfileOutcome.REFUSED, complaint))
        with alone(plan.tree, plan.gpu, plan.device):
            for record in in_lanes(ready, session, ncu, results, reporter):
                keep(record)
    return results


def recorded(tree: Tree, iterations: Iterable[Iteration]) -> Iterator[ProfileRecord]:
    """The newest record of each iteration as it is now, whatever its outcome."""
    for each in iterations:
        profiles, _ = read(tree.profiles(*each.ladder), ProfileRecord)
        yield from islice(of_code(profiles, each.name, *tree.hashes(each)), 1)


def powers(tree: Tree, gpu: str, iterations: Iterable[Iteration]) -> dict[tuple[str, str, str], PowerBound]:
    """By problem, model and name, what is recorded of iterations at the power limit, for their present code."""
    found: dict[tuple[str, str, str], PowerBound] = {}
    for shape in dict.fromkeys(each.shape_key for each in iterations):
        boards, _ = leaderboard.boards(tree, gpu, Selection(shape=shape))
        for row in (row for board in reversed(boards) for row in board.rows):
            bound = None if row.edited else PowerBound.of(row)
            if bound is not None:
                found[row.key] = bound
    return found


def _reusable(plan: Plan, iteration: Iteration) -> ProfileRecord | None:
    """The newest profile of the same source and environment, if its report still lies beside it."""
    table = plan.tree.ncu(iteration, "csv")
    if plan.again or not table.is_file():
        return None
    profiles, _ = read(plan.tree.profiles(*iteration.ladder), ProfileRecord)
    same = [each for each in profiles if each.environment == plan.environment(iteration.problem.operator)]
    known = newest(same, iteration.name, *plan.tree.hashes(iteration))
    return known if known and sha256(table.read_bytes()).hexdigest() == known.csv_sha256 else None


def _verified(plan: Plan, iterations: list[Iteration], reporter: Reporter) -> Iterator[tuple[Iteration, str | None]]:
    """Each iteration with the complaint of its contract or verification; verifies what no record proves yet."""
    to_verify = replace(plan, iterations=tuple(iterations), upto=Stage.VERIFY, any_chip=True, again=False)
    results = run(to_verify, _NoAdvance(reporter))
    by_key = {record.key: record for record in results.records}
    unfit = {each.path: each.reason for each in results.misplaced}
    for iteration in iterations:
        if (record := by_key.get(iteration.key)) is None:
            yield iteration, unfit[operator_file(plan.tree.root, iteration.problem)]
        else:
            yield iteration, None if record.status is Status.PASSED else f"{record.stage}: {record.reason}"


def in_lanes(
    iterations: list[Iteration], session: Session, ncu: Ncu | None, results: Profiles, reporter: Reporter
) -> Iterator[ProfileRecord]:
    """Each record, in order. One iteration has the device while others are imported and built."""
    lanes = max(1, min(MOST_LANES, cores.usable() // CORES_PER_LANE, len(iterations)))
    reporter.doing(f"profiling {len(iterations)} iterations, {lanes} at a time")
    work = partial(_profile_one, session, ncu, results)
    with run_ahead(work, iterations, lanes, window=2 * lanes, abort=session.children.stop) as records:
        yield from records


def _profile_one(session: Session, ncu: Ncu | None, results: Profiles, iteration: Iteration) -> ProfileRecord:
    """Profile with counters if the driver allows them, else with a trace. A failure is a record too."""
    try:
        if ncu is not None and results.remedy is None:
            try:
                return session.count(iteration, ncu)
            except CountersRefused as refused:
                results.remedy = str(refused)  # the driver would refuse the others too
        return session.time(iteration)
    except Refusal as refusal:
        return session.failed(iteration, ProfileOutcome.REFUSED, str(refusal))
    except InfrastructureError as error:
        return session.failed(iteration, ProfileOutcome.FAILED, str(error))


@dataclass(frozen=True, slots=True)
class _NoAdvance:
    """Passes on a verification's messages; the progress bar counts profiles alone."""

    reporter: Reporter

    def doing(self, text: str) -> None:
        self.reporter.doing(text)

    def finished(self, text: str, *, advance: bool = True) -> None:
        self.reporter.finished(text, advance=False)
