"""A run over many iterations: reuse records, build ahead, measure, and record each outcome."""

import fcntl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, TypeVar

from harness.catalog.opponents import OpponentEntry, Opponents
from harness.catalog.tree import Iteration, Misplaced, Tree
from harness.errors import ExitCode, InfrastructureError, UsageError, explained
from harness.evidence import toolchain
from harness.judge import builds, fault_attribution
from harness.judge.candidate import Candidate, Referees, Rejection, Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import reading, widened_at
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import advance
from harness.judge.processes import end_forkserver, start_forkserver
from harness.judge.stopping import Progress
from harness.judge.verdicts import verdict
from harness.machine.nvml import Device
from harness.machine.progress import Reporter, announce
from harness.records.base import SCHEMA, Cause, Environment, RowKind, Stage, exit_code_of, identity
from harness.records.environment import describing
from harness.records.pairs import PairRecord
from harness.records.results import BaselineRecord, Record
from harness.records.same_code import alike
from harness.records.store import append, read
from harness.records.sustained import SustainedRecord
from harness.records.versus import VersusRecord
from harness.runs import companion_files, copy_bandwidth
from harness.runs.builders import Builders, builders
from harness.runs.rehearsal import operator_file, unfit
from harness.runs.result_line import result_line
from harness.runs.retrying import retrying
from harness.runs.run_ahead import run_ahead
from harness.runs.turn import own_turn, require_free
from harness.runs.within import ENDLESS, Deadline

ROW_BUDGETS: Final = 2.0  # what a row usually takes on its device, in budgets of a measurement: 3 to 6 s on an H200

Entry = tuple[Candidate, Rejection | None]
J = TypeVar("J", Record, PairRecord, SustainedRecord, VersusRecord)


@dataclass(frozen=True)
class Plan:
    """Iterations of one GPU key, and the last stage for them.

    With ``copies`` the library's copy is measured beside each memory-bound problem. With ``any_chip`` what another chip
    of the same GPU measured is not repeated. Nothing begins that would not end before the ``deadline``.
    """

    tree: Tree
    gpu: Gpu
    device: Device | None
    iterations: tuple[Iteration, ...]
    settings: Settings
    misplaced: tuple[Misplaced, ...] = ()
    upto: Stage = Stage.BENCH
    again: bool = False
    copies: bool = False
    any_chip: bool = False
    deadline: Deadline = ENDLESS

    @property
    def uses_device(self) -> bool:
        return self.upto in (Stage.VERIFY, Stage.BENCH)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(dict.fromkeys(each.problem for each in self.iterations))

    @cached_property
    def environment(self) -> Callable[[str], Environment]:
        """The environment of each operator on this machine."""
        return describing(self.tree.root, self.gpu, self.device)

    @cached_property
    def opponents(self) -> Opponents:
        return Opponents.of(self.tree.root)

    def enter(self, iteration: Iteration, referees: Referees) -> Candidate:
        how = self.gpu, self.device, self.settings, referees
        return Candidate(iteration, self.tree.root, *how, launches=self.uses_device)


@dataclass(slots=True)
class Results:
    """One record per iteration, measured now or reused; for ``left`` of them the time did not last."""

    records: list[Record] = field(default_factory=list)
    reused: int = 0
    left: int = 0
    misplaced: tuple[Misplaced, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        code = exit_code_of((each.status, each.cause) for each in self.records)
        return max(code, ExitCode.USAGE) if self.misplaced else code


def run(plan: Plan, reporter: Reporter, keep: Callable[[Record], None] = lambda record: None) -> Results:
    """Carry out a plan. Each outcome is on the disk and passed to ``keep`` before the next measurement."""
    results = Results(misplaced=plan.misplaced)
    for each in plan.misplaced:
        reporter.finished(f"rejected  {each.reason}", advance=False)
    known = {each: reusable(plan, each, plan.environment) for each in plan.iterations}
    waiting = [iteration for iteration, record in known.items() if record is None]
    beside = copy_bandwidth.iterations(plan.tree, plan.gpu, waiting) if plan.copies else []
    for iteration, record in known.items():
        if record is not None and iteration not in beside:
            results.records.append(record)
            results.reused += 1
            if not companion_files.complete(plan.tree, iteration):
                companion_files.write(plan.tree, iteration, record)
            reporter.finished(result_line(record, plan.gpu, reused=True))
    if not waiting:
        return results
    checks = plan.upto is Stage.CONTRACT
    with alone(plan.tree, plan.gpu, plan.device) if plan.uses_device else reading() if checks else nullcontext():
        if not checks:
            prepare(plan.gpu, plan.device, reporter)
            waiting = _fitting(plan, waiting, results, reporter)
        planned = {each.key for each in plan.iterations}
        ordered = [*(each for each in waiting if each not in beside), *beside]
        due = len(results.records) + len(ordered)
        carry_out = partial(_carry_out, plan, reporter=reporter)
        for _, (made, reused), counts in retrying(ordered, carry_out, plan.gpu):
            keep(made)
            if not counts:
                reporter.finished(f"{result_line(made, plan.gpu)}; once more at the end", advance=False)
                continue
            results.records.append(made)
            results.reused += reused
            reporter.finished(result_line(made, plan.gpu, reused=reused), advance=made.key in planned)
    results.left = due - len(results.records)
    return results


def _fitting(plan: Plan, waiting: list[Iteration], results: Results, reporter: Reporter) -> list[Iteration]:
    """The iterations that fit their operator. What is wrong with others is told, and counts as a misplaced file.

    Raises UsageError where none is left.
    """
    wrong = unfit(plan.tree, plan.gpu, [each.problem for each in waiting])
    found = {told: Misplaced(operator_file(plan.tree.root, problem), told) for problem, told in wrong.items()}
    fitting = [each for each in waiting if each.problem not in wrong]
    if wrong and not fitting:
        raise UsageError(next(iter(found)))
    for told in found:
        reporter.finished(f"rejected  {told}", advance=False)
    results.misplaced += tuple(found.values())
    return fitting


def reusable(plan: Plan, iteration: Iteration, environment: Callable[[str], Environment]) -> Record | None:
    """The record that another run of the same code would only repeat."""
    if plan.again or not plan.uses_device:
        return None
    path, here = plan.tree.records(*iteration.ladder), environment(iteration.problem.operator)
    widened = widened_at(plan.tree.root, iteration.problem.operator)

    def answers(record: Record) -> bool:
        if record.cause is Cause.WRONG_RESULT and record.recorded_at < widened:
            return False  # by narrower limits
        return record.answers(plan.upto) and record.cause is not Cause.ATTEMPTS

    return repeated(plan, iteration, here, path, Record, answers)


def repeated(
    plan: Plan, iteration: Iteration, here: Environment, path: Path, kind: type[J], also: Callable[[J], bool]
) -> J | None:
    """The record in a file that another run of the same code ``here`` would only repeat, of those that ``also`` fit."""
    source, families = plan.tree.hashes(iteration)
    code = alike(plan.tree.same_code(*iteration.ladder), source, families, here.tilelang)
    same = (
        record
        for record in reversed(read(path, kind)[0])
        if (record.model, record.iteration, record.source_sha256) == (iteration.model, iteration.name, source)
        and record.families_sha256 in code
        and record.environment.repeats(here, any_chip=plan.any_chip)
        and also(record)
    )
    return fault_attribution.standing(same, plan.gpu)


def _carry_out(
    plan: Plan, iterations: Sequence[Iteration], reporter: Reporter
) -> Iterator[tuple[Iteration, "Finished"]]:
    with built_ahead(plan, iterations, reporter, ROW_BUDGETS * plan.settings.budget_s) as built:
        for candidate, rejection in built:
            yield candidate.iteration, finish(plan, candidate, rejection, reporter)
            reporter.doing(_building(iterations))


@contextmanager
def built_ahead(
    plan: Plan, iterations: Sequence[Iteration], reporter: Reporter, usual_s: float
) -> Iterator[Iterator[Entry]]:
    """Run stages without a device ahead on the CPU cores, while one pair of processes uses the device.

    Gives the candidates in order, each with its rejection if it has failed, until the plan's deadline; ``usual_s`` is
    what one usually takes on the device. The first is given when the device is this run's. Their processes end with the
    context.
    """
    # Checks of the contract only parse, one at a time; by two threads CPython's parser can fail with a SystemError.
    parses = nullcontext(Builders(jobs=1, window=2, first=2))
    stopped = threading.Event()
    referees = Referees(plan.tree.root, plan.gpu)
    entered: list[Candidate] = []

    def build(iteration: Iteration) -> Entry:
        candidate = plan.enter(iteration, referees)
        candidate.builders = by.jobs
        entered.append(candidate)
        if stopped.is_set():
            return candidate, None
        rejection = advance(candidate, plan.upto, on_device=False)
        if rejection is not None or not plan.uses_device:
            candidate.leave()
        elif candidate.contestant is not None:
            candidate.contestant.pause()
        return candidate, rejection

    def abort() -> None:
        stopped.set()
        end_forkserver()

    with parses if plan.upto is Stage.CONTRACT else builders(plan.gpu, measures=plan.uses_device) as by:
        try:
            left_s = partial(plan.deadline.left_s, besides_s=usual_s)
            with run_ahead(build, iterations, abort=abort, left_s=left_s, **asdict(by)) as built:
                reporter.doing(f"importing torch and TileLang, then {_building(iterations)} on {by.jobs} cores")
                ready = own_turn.before(built, plan.device) if plan.uses_device else built
                yield plan.deadline.while_room(ready, usual_s, costs=lambda entry: entry[1] is None)
        finally:
            referees.leave()
            for candidate in entered:
                candidate.leave()


def _building(iterations: Sequence[Iteration]) -> str:
    return f"building {len(iterations)} iterations"


class Finished(NamedTuple):
    """A record, and whether it only repeats a recorded build."""

    record: Record
    reused: bool

    @property
    def cause(self) -> Cause | None:
        return self.record.cause


def finish(
    plan: Plan,
    candidate: Candidate,
    rejection: Rejection | None,
    reporter: Reporter,
    so_far: Callable[[Progress], None] = lambda progress: None,
) -> Finished:
    """Run the stages on the device.

    ``so_far`` hears of the measurement while it goes on, as the reporter does.
    """
    reused = candidate.recorded_build is not None and (rejection is not None or not candidate.launches)

    def hear(progress: Progress) -> None:
        reporter.doing(f"{candidate.iteration}: {figure(progress)}")
        so_far(progress)

    try:
        if rejection is None:
            reporter.doing(f"{plan.upto.value} {candidate.iteration}")
            candidate.so_far = hear
            rejection = advance(candidate, plan.upto, on_device=True)
    finally:
        candidate.leave()
    rejection, attempt = builds.keep(plan.tree, candidate, rejection)
    record = record_of(plan, candidate, rejection, attempt)
    if plan.uses_device:
        iteration = candidate.iteration
        append(plan.tree.records(*iteration.ladder), record)
        _keep_baseline(plan.tree, record)
        companion_files.write(plan.tree, iteration, record)
    return Finished(record, reused)


def figure(progress: Progress) -> str:
    """The ratio so far, without an interval."""
    ratio = median(block.baseline_ms / block.contestant_ms for block in progress.blocks)
    return f"ratio {ratio:.4f} after {len(progress.blocks)} rounds"


def outcome(plan: Plan, candidate: Candidate, rejection: Rejection | None) -> dict[str, Any]:
    """The fields that the records of all kinds of measurements share."""
    return {
        **identity(candidate.iteration),
        **verdict(rejection),
        "source_sha256": candidate.source_sha256,
        "families_sha256": candidate.families_sha256,
        "environment": plan.environment(candidate.iteration.problem.operator).with_libraries(candidate.libraries),
    }


def record_of(plan: Plan, candidate: Candidate, rejection: Rejection | None, attempt: str | None = None) -> Record:
    terms = candidate.terms
    return Record(
        **outcome(plan, candidate, rejection),
        stage=candidate.stage,
        idea=terms.idea if terms else None,
        parent=terms.parent if terms else None,
        config=terms.config if terms else None,
        build=candidate.build,
        verification=candidate.verification,
        measurement=candidate.measurement,
        attempt=attempt,
        traceback=None if rejection is None else rejection.traceback,
        confinement=candidate.confinement,
        kind=RowKind.OPPONENT if isinstance(candidate.iteration, OpponentEntry) else None,
        checks=candidate.iteration.problem.checks if candidate.verification else None,
        dynamic=candidate.dynamic or None,
    )


def _keep_baseline(tree: Tree, record: Record) -> None:
    """Record the baseline's own figures at a problem's first measurement in an environment."""
    measured = record.measurement
    if measured is None:
        return
    path = tree.baseline(record.gpu, record.shape_key)
    known, _ = read(path, BaselineRecord)
    if any(each.environment == record.environment and each.timer == measured.timer for each in known):
        return
    append(
        path,
        BaselineRecord(
            schema=SCHEMA,
            recorded_at=record.recorded_at,
            shape_key=record.shape_key,
            baseline=measured.baseline,
            timer=measured.timer,
            time_ms=measured.baseline_ms,
            tflops=measured.baseline_tflops,
            environment=record.environment,
        ),
    )


def prepare(gpu: Gpu, device: Device | None, reporter: Reporter) -> None:
    """Check the compilers, and start the forkserver that all child processes come from."""
    toolchain.find().require(cpu=gpu.is_cpu)
    announce(reporter, "importing torch and TileLang, which takes up to a minute from a cold disk")
    start_forkserver(gpu, device)


@contextmanager
def alone(tree: Tree, gpu: Gpu, device: Device | None) -> Iterator[None]:
    """Hold the tree's lock. Raises InfrastructureError if another run holds it, or a process uses the device.

    A run that began early looks at the device when its turn comes.
    """
    if own_turn.ahead is None:
        require_free(device)
    folder = tree.folder(gpu.key)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise InfrastructureError(f"{tree.short(folder)} cannot be written: {explained(error)}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            where = tree.short(folder)
            raise InfrastructureError(f"another run is measuring under {where}; wait until it ends") from None
        yield


@contextmanager
def judging(tree: Tree, gpu: Gpu, device: Device | None, reporter: Reporter) -> Iterator[Referees]:
    """Hold the lock and start what the judge needs; the referees end with the context. Raises InfrastructureError."""
    with alone(tree, gpu, device):
        prepare(gpu, device, reporter)
        own_turn.take(device)
        referees = Referees(tree.root, gpu)
        try:
            yield referees
        finally:
            referees.leave()
