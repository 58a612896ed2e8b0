"""A run over the opponents of problems: reuse records, measure what is installed, and record each outcome."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from harness.catalog.opponents import Opponent, OpponentEntry, Opponents
from harness.catalog.tree import Tree
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Referees, Settings
from harness.judge.contract import Terms
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import judged
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.records.base import Environment
from harness.records.environment import describe
from harness.records.pairs import PairRecord
from harness.records.results import Record
from harness.records.store import append, read
from harness.records.sustained import SustainedRecord
from harness.runs.result_line import result_line
from harness.runs.retrying import retrying
from harness.runs.run import judging, record_of
from harness.runs.within import ENDLESS, TIME_OVER, Deadline

USUAL_S: Final = 20.0  # for an outcome with what is compiled for it: 6 to 27 s on an H200
Work = tuple[Opponent, OpponentEntry]
T = TypeVar("T")
J = TypeVar("J", Record, PairRecord, SustainedRecord)


@dataclass(frozen=True)
class OpponentPlan:
    """Problems of one GPU key, for their opponents.

    ``again`` repeats what is recorded; with ``any_chip`` what another chip of the same GPU recorded is not repeated.
    """

    tree: Tree
    gpu: Gpu
    device: Device | None
    problems: tuple[Problem, ...]
    settings: Settings
    again: bool = False
    any_chip: bool = False
    deadline: Deadline = ENDLESS

    @cached_property
    def opponents(self) -> Opponents:
        return Opponents.of(self.tree.root)

    def environment(self, problem: Problem) -> Environment:
        return describe(self.tree.root, self.gpu, self.device, problem.operator)


def tell_missing(plan: OpponentPlan, reporter: Reporter) -> None:
    """A line for each opponent that a problem could have and this machine lacks."""
    found = {each.name: each.missing for p in plan.problems for each in plan.opponents.serving(p, plan.gpu)}
    for name, missing in found.items():
        if missing:
            reporter.finished(f"skipped   opponent {name}: {missing}", advance=False)


def measure(plan: OpponentPlan, reporter: Reporter) -> list[Record]:
    """Measure each opponent that serves a problem, beside the library. One that fails has a line and a record."""
    work = [(each, each.entry(p, plan.gpu)) for p in plan.problems for each in plan.opponents.serving(p, plan.gpu)]

    def judge(work: Work, referees: Referees) -> Record:
        reporter.doing(f"opponent {work[1]}")
        return _measured(plan, *work, referees)

    return one_by_one(
        plan,
        [(opponent, entry) for opponent, entry in work if not opponent.missing],
        known=lambda work: reusable(plan, work[1]),
        judge=judge,
        path=lambda made: plan.tree.opponents(made.gpu, made.shape_key),
        line=lambda made: result_line(made, plan.gpu),
        reporter=reporter,
    )


def reusable(plan: OpponentPlan, entry: OpponentEntry) -> Record | None:
    """The record that another run of the same opponent would only repeat."""
    hashes = plan.tree.hashes(entry)
    same = (
        record
        for record in reversed(read(plan.tree.opponents(entry.gpu, entry.shape_key), Record)[0])
        if record.iteration == entry.name
        and (record.source_sha256, record.families_sha256) == hashes
        and record.environment.repeats(plan.environment(entry.problem), any_chip=plan.any_chip)
    )
    return fault_attribution.standing(same, plan.gpu)


def one_by_one(
    plan: OpponentPlan,
    work: Iterable[T],
    known: Callable[[T], J | None],
    judge: Callable[[T, Referees], J],
    path: Callable[[J], Path],
    line: Callable[[J], str],
    reporter: Reporter,
) -> list[J]:
    """Judge one after another what is not known, and once more what may be the machine's fault.

    Returns the outcomes that count, the known ones first. Each is on the disk, in the file of ``path``, before the
    next measurement. Nothing begins that would not end before the plan's deadline.
    """
    found = [(each, None if plan.again else known(each)) for each in work]
    records = [record for _, record in found if record is not None]
    for record in records:
        reporter.finished(f"{line(record)}  (recorded before)")
    waiting = [each for each, record in found if record is None]
    if not waiting or not plan.deadline.has_room(USUAL_S):
        return records
    with judging(plan.tree, plan.gpu, plan.device, reporter) as referees:

        def judge_all(rest: Iterable[T]) -> Iterator[tuple[T, J]]:
            return ((each, judge(each, referees)) for each in plan.deadline.while_room(rest, USUAL_S))

        for _, record, counts in retrying(waiting, judge_all, plan.gpu):
            append(path(record), record)
            if counts:
                records.append(record)
                reporter.finished(line(record))
    if left := len(found) - len(records):
        reporter.finished(f"skipped   {left} more: {TIME_OVER}", advance=False)
    return records


def _measured(plan: OpponentPlan, opponent: Opponent, entry: OpponentEntry, referees: Referees) -> Record:
    candidate = Candidate.enter(entry, plan.tree.root, plan.gpu, plan.device, plan.settings, referees)
    candidate.terms = Terms(opponent.what, None, opponent.config)
    return record_of(candidate, judged(candidate), plan.environment(entry.problem))
