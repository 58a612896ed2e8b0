"""Pairs of environments: each iteration compiled by both, one timed against the other in paired blocks."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec

from harness.authoring import scaffold
from harness.catalog.tree import Iteration
from harness.extras.versus.duel import BUILDS, Duel, Match
from harness.extras.versus.shift import Shift, error_of, of_measurement, pooled, quotient, shift
from harness.judge.candidate import Referees
from harness.judge.interpreters import write_bytecode
from harness.judge.processes import end_forkserver, start_interpreter
from harness.judge.statistics import Estimate
from harness.machine.progress import Reporter
from harness.machine.table import bounded
from harness.records.store import append
from harness.records.versus import VersusRecord
from harness.runs.builders import builders
from harness.runs.retrying import retrying
from harness.runs.run import alone, prepare, repeated
from harness.runs.run_ahead import run_ahead

LIBRARY: Final = "library"  # in the model's place, where the row is the library's own call
_CALL: Final = Path(__file__).with_name("library_call.py")


class PairedRow(msgspec.Struct, frozen=True):
    """What the new environment did to one iteration.

    ``ratio`` is the old environment's time over the new one's: above 1 the new one is faster. Its interval is as wide
    as the verdicts of the whole table need, and at least that of 95%. ``reason`` says what broke, why nothing is
    decided, or why a row that was measured unlike is the same. Where both have one code the row is the same, measured
    or not. Where the library's call was also compared, ``to_library`` is the kernel's new ratio to the library over
    its old one.
    """

    problem: str
    model: str
    iteration: str
    verdict: Shift
    identical: bool = False
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    reason: str | None = None
    to_library: float | None = None
    to_library_low: float | None = None
    to_library_high: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What an iteration's key is."""
        return self.problem, self.model, self.iteration

    @property
    def listed(self) -> bool:
        """Whether tables have it: it has a ratio or a fault."""
        return self.ratio is not None or not self.identical

    @property
    def estimate(self) -> Estimate | None:
        """The ratio with its interval: exactly 1 for the same code, None where nothing was measured."""
        if self.ratio is None or self.ratio_low is None or self.ratio_high is None:
            return Estimate(1, 1, 1) if self.identical else None
        return Estimate(self.ratio, self.ratio_low, self.ratio_high)


def library_calls(iterations: Iterable[Iteration]) -> list[Iteration]:
    """The library's call of each problem, as an iteration that both environments can run."""
    problems = {each.shape_key: each for each in iterations}
    return [
        Iteration(_CALL, each.gpu, each.problem, LIBRARY, 0, scaffold.baseline_tag(each.problem))
        for each in problems.values()
    ]


def measure(match: Match, iterations: Sequence[Iteration], reporter: Reporter) -> list[PairedRow]:
    """One row for each iteration; one that is not the same is measured twice, with the environments swapped.

    What is recorded already is not measured again, unless the plan says so.
    """
    records = {each: [record] for each, record in _outcomes(match, iterations, reporter, swapped=False).items()}
    error = error_of(sum(found[0].measurement is not None for found in records.values()))
    unsettled = [
        each
        for each, found in records.items()
        if found[0].measurement is not None and row(found, error).verdict is not Shift.SAME
    ]
    for each, record in _outcomes(match, unsettled, reporter, swapped=True).items():
        records[each].append(record)
    return beside_library([row(found, error) for found in records.values()])


def beside_library(rows: Sequence[PairedRow]) -> list[PairedRow]:
    """The rows, each with what became of its ratio to the library's call, where that has a row too."""
    calls = {each.problem: each.estimate for each in rows if each.model == LIBRARY}
    return [_beside(each, calls.get(each.problem)) for each in rows]


def _beside(row: PairedRow, call: Estimate | None) -> PairedRow:
    own = row.estimate
    if own is None or call is None or row.model == LIBRARY:
        return row
    found = quotient(own, call)
    return msgspec.structs.replace(row, to_library=found.ratio, to_library_low=found.low, to_library_high=found.high)


def row(records: Sequence[VersusRecord], error: float) -> PairedRow:
    """The row that one iteration's measurements make; ``error`` is that of one measurement."""
    last = records[-1]
    if last.reason is not None:
        return PairedRow(*last.key, _fault(last), reason=last.reason)
    if last.measurement is None:
        return PairedRow(*last.key, Shift.SAME, identical=True)
    found = [
        of_measurement(each.measurement, swapped=each.swapped, error=error)
        for each in records
        if each.measurement is not None
    ]
    identical = all(each.identical for each in records)
    both, verdict = pooled(found), Shift.SAME if identical else shift(found)
    doubt = "the interval is too wide, or two measurements disagree" if verdict is Shift.UNDECIDED else None
    return PairedRow(*last.key, verdict, identical, both.ratio, both.low, both.high, doubt)


def line(record: VersusRecord) -> str:
    """One measurement in one line."""
    head = f"{record.shape_key} {record.model} {record.iteration}"
    found = record.measurement
    if found is None:
        return f"{head}: {record.reason or 'the same code in both'}"
    first, second = ("new", "old") if record.swapped else ("old", "new")
    return f"{head}: {first}/{second} {bounded(found)}"


def _fault(record: VersusRecord) -> Shift:
    """Which environment cannot run it; undecided where the measurement itself failed."""
    if record.new.reason:
        return Shift.FAILS if record.old.reason else Shift.BROKEN
    return Shift.FIXED if record.old.reason else Shift.UNDECIDED


def _outcomes(
    match: Match, iterations: Sequence[Iteration], reporter: Reporter, *, swapped: bool
) -> dict[Iteration, VersusRecord]:
    """The record of each iteration, in their order: an earlier one, or a new one."""
    plan = match.plan
    known = {each: None if plan.again else _reusable(match, each, swapped=swapped) for each in iterations}
    waiting = [each for each, record in known.items() if record is None]
    if waiting:
        with alone(plan.tree, plan.gpu, plan.device):
            prepare(plan.gpu, plan.device, reporter)
            both = match.old.interpreter, match.new.interpreter
            write_bytecode(*both)
            for each in both:
                start_interpreter(each)
            for iteration, record in _measured(match, waiting, reporter, swapped=swapped):
                known[iteration] = record
                reporter.finished(line(record), advance=not swapped)
    return {each: record for each, record in known.items() if record is not None}


def _measured(
    match: Match, waiting: Sequence[Iteration], reporter: Reporter, *, swapped: bool
) -> Iterator[tuple[Iteration, VersusRecord]]:
    """The outcome that counts of each; every outcome is on the disk at once."""

    def judge(iterations: Sequence[Iteration]) -> Iterator[tuple[Iteration, VersusRecord]]:
        with _built_ahead(match, iterations, swapped=swapped) as duels:
            for duel in duels:
                iteration = duel.candidate.iteration
                reporter.doing(f"{iteration}: {match.old.side.name} against {match.new.side.name}")
                yield iteration, duel.finished()

    for iteration, record, counts in retrying(waiting, judge, match.plan.gpu):
        append(match.plan.tree.versus(record.gpu, record.shape_key), record)
        if counts:
            yield iteration, record


@contextmanager
def _built_ahead(match: Match, waiting: Sequence[Iteration], *, swapped: bool) -> Iterator[Iterator[Duel]]:
    """Build on the CPU cores ahead of what measures."""
    plan, begun = match.plan, list[Duel]()
    referees = Referees(plan.tree.root, plan.gpu)

    def build(iteration: Iteration) -> Duel:
        candidate = plan.enter(iteration, referees)
        candidate.builders = by.jobs
        begun.append(duel := Duel(match, swapped, candidate))
        duel.build()
        return duel

    with builders(plan.gpu, measures=True) as by:
        try:
            with run_ahead(build, waiting, abort=end_forkserver, **asdict(by.each_of(BUILDS))) as duels:
                yield duels
        finally:
            referees.leave()
            for duel in begun:
                duel.candidate.leave()


def _reusable(match: Match, iteration: Iteration, *, swapped: bool) -> VersusRecord | None:
    """The record that another measurement of the same would only repeat."""
    plan = match.plan
    here, path = plan.environment(iteration.problem.operator), plan.tree.versus(iteration.gpu, iteration.shape_key)
    _, families = plan.tree.hashes(iteration)  # what gives one TileLang the same code may give the other another
    wanted = families, match.old.side.sha256, match.new.side.sha256, swapped

    def fits(record: VersusRecord) -> bool:
        found = record.families_sha256, record.old.sha256, record.new.sha256, record.swapped
        return found == wanted and not (record.identical and record.measurement is None and match.identical_too)

    return repeated(plan, iteration, here, path, VersusRecord, fits)
