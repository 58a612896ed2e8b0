"""Opponents in both regimes: each beside the library, and the leader of each problem against the strongest of them."""

from collections.abc import Iterator
from functools import partial

import msgspec

from harness.boards import leaderboard, sustained
from harness.boards.board import Board, BoardRow
from harness.catalog.opponents import OpponentEntry
from harness.catalog.tree import Selection
from harness.judge.candidate import Referees
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import begin, judged
from harness.judge.sustaining import SustainedSettings
from harness.machine.progress import Reporter
from harness.machine.table import bounded
from harness.records.base import Status
from harness.records.pairs import PairRecord
from harness.records.results import Measurement
from harness.records.sustained import SustainedRecord
from harness.runs import opponents
from harness.runs.opponents import USUAL_S, Opposed, one_by_one, opponent_fields
from harness.runs.run import Plan, outcome
from harness.runs.within import TIME_OVER


def oppose(plan: Plan, reporter: Reporter) -> None:
    """Measure the opponents of each problem, and its leader against the strongest of them.

    Problems without such a pair on the board come first, so that a run of limited time adds to it.
    """
    opponents.tell_missing(plan, reporter)
    waiting = sorted(plan.problems, key=partial(_has_met, plan))
    for number, problem in enumerate(waiting):
        if not plan.deadline.has_room(USUAL_S):
            left = len(waiting) - number
            reporter.finished(f"skipped   opponents of {left} more: {TIME_OVER}", advance=False)
            return
        opponents.measure(plan, problem, reporter)
        measure(plan, problem, reporter)


def _has_met(plan: Plan, problem: Problem) -> bool:
    """Whether the board has a ratio of this problem's leader to an opponent."""
    board = present(plan, problem)
    return board is not None and board.leader is not None and board.leader.vs_best is not None


def measure(plan: Plan, problem: Problem, reporter: Reporter) -> list[PairRecord]:
    """Measure the pair unless it is recorded; a wrong opponent, or one that fails, has a line and no ratio."""

    def judge(pair: Opposed, referees: Referees) -> PairRecord:
        assert pair.against is not None
        reporter.doing(f"{pair.contestant} against {pair.against.name}")
        candidate = plan.enter(pair.contestant, referees)
        candidate.against = pair.against
        rejection = judged(candidate)
        measured = None if rejection is not None else candidate.measurement
        opposed = opponent_fields(plan.tree, pair.against)
        return PairRecord(**outcome(plan, candidate, rejection), **opposed, measurement=measured)

    return one_by_one(plan, pairs(plan, problem), PairRecord, judge, line, reporter)


def pairs(plan: Plan, problem: Problem) -> Iterator[Opposed]:
    """The leader and the strongest opponent of a problem, if it has both in this environment."""
    board = present(plan, problem)
    against = _entry(plan, problem, board.best_opponent if board else None)
    if board is not None and against is not None and board.leader is not None:
        leader = board.leader
        path = plan.tree.source(plan.gpu.key, problem.shape_key, leader.model, leader.iteration)
        yield Opposed(plan.tree.parse(path), against)


def line(record: PairRecord) -> str:
    """One pair in one line."""
    head = f"{record.status:<9} {record.shape_key} {record.model} {record.iteration} against {record.opponent}: "
    found = record.measurement
    if record.status is not Status.PASSED or found is None:
        return f"{head}{record.reason}"
    return f"{head}{bounded(found)}"


def present(plan: Plan, problem: Problem) -> Board | None:
    """The board of this machine as it is now."""
    boards, _ = leaderboard.boards(plan.tree, plan.gpu.key, Selection(shape=problem.shape_key))
    return next(
        (
            board
            for board in boards
            if board.environment is not None
            and board.timer == plan.gpu.timer
            and board.environment.rank_key == plan.environment(problem.operator).rank_key
        ),
        None,
    )


def oppose_at_limit(plan: Plan, regime: SustainedSettings, reporter: Reporter) -> list[SustainedRecord]:
    """Measure the opponents of each problem at the power limit, and then its leader against the strongest of them.

    Problems without a power limit are left out.
    """
    records: list[SustainedRecord] = []
    problems = [each for each in plan.problems if sustained.no_limit(plan.gpu, plan.device, each) is None]

    def judge(item: Opposed, referees: Referees) -> SustainedRecord:
        assert item.paired is not None
        reporter.doing(f"sustained {item.contestant}")
        candidate = plan.enter(item.contestant, referees)
        candidate.against = item.against
        return sustained.record_of(plan, candidate, sustained.outcome_of(candidate, item.paired, regime, begin))

    for work in (opponents_at_limit, pairs_at_limit):
        for problem in problems:
            found = work(plan, problem)
            records += one_by_one(plan, found, SustainedRecord, judge, sustained.line, reporter)
    return records


def opponents_at_limit(plan: Plan, problem: Problem) -> Iterator[Opposed]:
    """Each opponent that passed at equal clocks."""
    board = present(plan, problem)
    for row in board.opponents if board else ():
        entry, measured = _entry(plan, problem, row), sustained.measurement_of(plan.tree, row)
        if entry is not None and measured is not None and not row.stale:
            yield Opposed(entry, paired=measured)


def pairs_at_limit(plan: Plan, problem: Problem) -> Iterator[Opposed]:
    """What leads at the power limit against the opponent that is strongest there."""
    board = present(plan, problem)
    leader, best = (board.first_at_limit, board.sustained_best_opponent) if board else (None, None)
    against = _entry(plan, problem, best)
    if leader is None or leader.is_baseline or leader.stale or best is None or against is None:
        return
    if not best.ratio_low or best.ratio_low <= 0:  # its noise bounds no quotient
        return
    for iteration, paired in sustained.paired_of(plan.tree, [leader]):
        yield Opposed(iteration, against, expected(paired, best))


def _entry(plan: Plan, problem: Problem, row: BoardRow | None) -> OpponentEntry | None:
    """The opponent of a row, if it is here."""
    opponent = plan.opponents.named(row.iteration) if row else None
    return opponent.entry(problem, plan.gpu) if opponent and not opponent.missing else None


def expected(leader: Measurement, opponent: BoardRow) -> Measurement:
    """What the pair's ratio at equal clocks must be, from both ratios to the library."""
    assert opponent.ratio is not None and opponent.ratio_low is not None
    return msgspec.structs.replace(
        leader, ratio=leader.ratio / opponent.ratio, ratio_high=leader.ratio_high / opponent.ratio_low
    )
