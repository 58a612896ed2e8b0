"""A run over the opponents of problems: reuse records, measure what is installed, and record each outcome."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from harness.catalog.opponents import Opponent, OpponentEntry
from harness.judge.candidate import Referees
from harness.judge.contract import Terms
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import judged
from harness.machine.progress import Reporter
from harness.records.results import Record
from harness.records.store import append
from harness.runs.result_line import result_line
from harness.runs.retrying import retrying
from harness.runs.run import J, Plan, judging, record_of, repeated
from harness.runs.within import TIME_OVER

USUAL_S: Final = 20.0  # for an outcome with what is compiled for it: 6 to 27 s on an H200
Work = tuple[Opponent, OpponentEntry]
T = TypeVar("T")


def tell_missing(plan: Plan, reporter: Reporter) -> None:
    """A line for each opponent that a problem could have and this machine lacks."""
    found = {each.name: each.missing for p in plan.problems for each in plan.opponents.serving(p, plan.gpu)}
    for name, missing in found.items():
        if missing:
            reporter.finished(f"skipped   opponent {name}: {missing}", advance=False)


def measure(plan: Plan, problem: Problem, reporter: Reporter) -> list[Record]:
    """Measure each opponent that serves a problem, beside the library. One that fails has a line and a record."""
    work = [(each, each.entry(problem, plan.gpu)) for each in plan.opponents.serving(problem, plan.gpu)]

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


def reusable(plan: Plan, entry: OpponentEntry) -> Record | None:
    """The record that another run of the same opponent would only repeat."""
    here, path = plan.environment(entry.problem.operator), plan.tree.records(*entry.ladder)
    return repeated(plan, entry, here, path, Record, lambda record: True)


def one_by_one(
    plan: Plan,
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


def _measured(plan: Plan, opponent: Opponent, entry: OpponentEntry, referees: Referees) -> Record:
    candidate = plan.enter(entry, referees)
    candidate.terms = Terms(opponent.what, None, opponent.config)
    return record_of(plan, candidate, judged(candidate))
