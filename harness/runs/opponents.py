"""A run over the opponents of problems: reuse records, measure what is installed, and record each outcome."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.catalog.opponents import Opponent, OpponentEntry
from harness.catalog.tree import Iteration, Tree
from harness.judge.candidate import Referees
from harness.judge.contract import Terms
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import judged
from harness.machine.progress import Reporter
from harness.records.pairs import PairRecord
from harness.records.results import Measurement, Record
from harness.records.store import append
from harness.records.sustained import SustainedRecord
from harness.runs.result_line import result_line
from harness.runs.retrying import retrying
from harness.runs.run import J, Plan, judging, record_of, repeated
from harness.runs.within import TIME_OVER

USUAL_S: Final = 20.0  # for an outcome with what is compiled for it: 6 to 27 s on an H200


@dataclass(frozen=True, slots=True)
class Opposed:
    """One measurement with an opponent: as the contestant, or ``against`` in the library's place.

    ``paired`` is at equal clocks, for a measurement at the power limit.
    """

    contestant: Iteration
    against: OpponentEntry | None = None
    paired: Measurement | None = None


def tell_missing(plan: Plan, reporter: Reporter) -> None:
    """A line for each opponent that a problem could have and this machine lacks."""
    found = {each.name: each.missing for p in plan.problems for each in plan.opponents.serving(p, plan.gpu)}
    for name, missing in found.items():
        if missing:
            reporter.finished(f"skipped   opponent {name}: {missing}", advance=False)


def measure(plan: Plan, problem: Problem, reporter: Reporter) -> list[Record]:
    """Measure each opponent that serves a problem, beside the library. One that fails has a line and a record."""
    serving: dict[Iteration, Opponent] = {
        each.entry(problem, plan.gpu): each for each in plan.opponents.serving(problem, plan.gpu) if not each.missing
    }

    def judge(item: Opposed, referees: Referees) -> Record:
        opponent = serving[item.contestant]
        reporter.doing(f"opponent {item.contestant}")
        candidate = plan.enter(item.contestant, referees)
        candidate.terms = Terms(opponent.what, None, opponent.config)
        return record_of(plan, candidate, judged(candidate))

    return one_by_one(plan, map(Opposed, serving), Record, judge, partial(result_line, gpu=plan.gpu), reporter)


def opponent_fields(tree: Tree, against: Iteration | None) -> dict[str, Any]:
    """The fields of a record that say which opponent ran in the library's place."""
    source, imports = tree.hashes(against) if against is not None else (None, None)
    name = against.name if against is not None else None
    return {"opponent": name, "opponent_sha256": source, "opponent_imports_sha256": imports}


def recorded(plan: Plan, item: Opposed, kind: type[J]) -> J | None:
    """The record that another measurement of the same would only repeat."""
    here = plan.environment(item.contestant.problem.operator)
    opposed = opponent_fields(plan.tree, item.against)

    def fits(record: J) -> bool:
        return all(getattr(record, name, None) == value for name, value in opposed.items())

    return repeated(plan, item.contestant, here, _file(plan.tree, item.contestant, kind), kind, fits)


def _file(tree: Tree, contestant: Iteration, kind: type[object]) -> Path:
    """Where records of a kind lie."""
    if kind is PairRecord:
        return tree.pairs(contestant.gpu, contestant.shape_key)
    return (tree.sustained if kind is SustainedRecord else tree.records)(*contestant.ladder)


def one_by_one(
    plan: Plan,
    work: Iterable[Opposed],
    kind: type[J],
    judge: Callable[[Opposed, Referees], J],
    line: Callable[[J], str],
    reporter: Reporter,
) -> list[J]:
    """Judge one after another what is not recorded, and once more what may be the machine's fault.

    Returns the outcomes that count, the recorded ones first. Each is on the disk before the next measurement.
    Nothing begins that would not end before the plan's deadline.
    """
    found = [(each, None if plan.again else recorded(plan, each, kind)) for each in work]
    records = [record for _, record in found if record is not None]
    for record in records:
        reporter.finished(f"{line(record)}  (recorded before)")
    waiting = [each for each, record in found if record is None]
    if not waiting or not plan.deadline.has_room(USUAL_S):
        return records
    with judging(plan.tree, plan.gpu, plan.device, reporter) as referees:

        def judge_all(rest: Iterable[Opposed]) -> Iterator[tuple[Opposed, J]]:
            return ((each, judge(each, referees)) for each in plan.deadline.while_room(rest, USUAL_S))

        for each, record, counts in retrying(waiting, judge_all, plan.gpu):
            append(_file(plan.tree, each.contestant, kind), record)
            if counts:
                records.append(record)
                reporter.finished(line(record))
    if left := len(found) - len(records):
        reporter.finished(f"skipped   {left} more: {TIME_OVER}", advance=False)
    return records
