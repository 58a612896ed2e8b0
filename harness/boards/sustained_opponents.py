"""Opponents in the sustained regime: each beside the library, and the leader against the strongest of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.boards import pairs
from harness.boards.board import BoardRow
from harness.boards.sustained import line, no_limit, outcome_of, paired_of, record_of, recorded
from harness.catalog.opponents import OpponentEntry
from harness.catalog.tree import Iteration
from harness.judge.candidate import Referees
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import begin
from harness.judge.sustaining import SustainedSettings
from harness.machine.progress import Reporter
from harness.records.results import Measurement, Record
from harness.records.store import read
from harness.records.sustained import SustainedRecord
from harness.runs.opponents import one_by_one
from harness.runs.run import Plan


def oppose(plan: Plan, regime: SustainedSettings, reporter: Reporter) -> list[SustainedRecord]:
    """Measure the opponents of each problem, and then its leader against the strongest of them.

    The leader is the one at equal clocks. Problems without a power limit are left out.
    """
    records: list[SustainedRecord] = []
    problems = [each for each in plan.problems if no_limit(plan.gpu, plan.device, each) is None]

    def judge(item: Opposed, referees: Referees) -> SustainedRecord:
        reporter.doing(f"sustained {item.contestant}")
        return _measured(plan, item, referees, regime)

    def path(made: SustainedRecord) -> Path:
        return plan.tree.sustained(*made.ladder)

    def known(item: Opposed) -> SustainedRecord | None:
        return recorded(plan, item.contestant, item.against)

    for work in (opponents_of, pairs_of):
        for problem in problems:
            records += one_by_one(plan, work(plan, problem), known, judge, path, line, reporter)
    return records


@dataclass(frozen=True, slots=True)
class Opposed:
    """One measurement with an opponent: as the contestant, or ``against`` in the library's place."""

    contestant: Iteration
    paired: Measurement
    against: OpponentEntry | None = None


def opponents_of(plan: Plan, problem: Problem) -> Iterator[Opposed]:
    """Each opponent that passed at equal clocks."""
    records, _ = read(plan.tree.opponents(plan.gpu.key, problem.shape_key), Record)
    board = pairs.present(plan, problem)
    for row in board.opponents if board else ():
        opponent = plan.opponents.named(row.iteration)
        measured = next((each.measurement for each in records if each.id == row.record), None)
        if opponent is not None and not opponent.missing and measured is not None and not row.stale:
            yield Opposed(opponent.entry(problem, plan.gpu), measured)


def pairs_of(plan: Plan, problem: Problem) -> Iterator[Opposed]:
    """The leader against the opponent that is strongest at the power limit."""
    board = pairs.present(plan, problem)
    best = board.sustained_best_opponent if board else None
    opponent = plan.opponents.named(best.iteration) if best else None
    if board is None or board.leader is None or best is None or opponent is None or opponent.missing:
        return
    leader = board.leader
    if leader.is_baseline or leader.stale:
        return
    for iteration, paired in paired_of(plan.tree, [leader]):
        yield Opposed(iteration, expected(paired, best), opponent.entry(problem, plan.gpu))


def expected(leader: Measurement, opponent: BoardRow) -> Measurement:
    """What the pair's ratio at equal clocks must be, from both ratios to the library."""
    assert opponent.ratio is not None and opponent.ratio_low is not None
    return msgspec.structs.replace(
        leader, ratio=leader.ratio / opponent.ratio, ratio_high=leader.ratio_high / opponent.ratio_low
    )


def _measured(plan: Plan, item: Opposed, referees: Referees, regime: SustainedSettings) -> SustainedRecord:
    candidate = plan.enter(item.contestant, referees)
    candidate.against = item.against
    return record_of(plan, candidate, outcome_of(candidate, item.paired, regime, begin), item.against)
