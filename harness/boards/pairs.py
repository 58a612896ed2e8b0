"""Pairs: the leader of each problem against its strongest opponent, which runs in the library's place."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness.boards import leaderboard
from harness.boards.board import Board
from harness.catalog.opponents import OpponentEntry
from harness.catalog.tree import Iteration, Selection, Tree
from harness.judge.candidate import Referees
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import judged
from harness.machine.progress import Reporter
from harness.machine.table import bounded
from harness.records.base import Status
from harness.records.pairs import PairRecord
from harness.records.sustained import SustainedRecord
from harness.runs import opponents
from harness.runs.opponents import USUAL_S, one_by_one
from harness.runs.run import Plan, outcome, repeated
from harness.runs.within import TIME_OVER

Pair = tuple[Iteration, OpponentEntry]


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

    def judge(pair: Pair, referees: Referees) -> PairRecord:
        reporter.doing(f"{pair[0]} against {pair[1].name}")
        return _measured(plan, pair, referees)

    def path(made: PairRecord) -> Path:
        return plan.tree.pairs(made.gpu, made.shape_key)

    return one_by_one(plan, pairs(plan, problem), partial(reusable, plan), judge, path, line, reporter)


def pairs(plan: Plan, problem: Problem) -> Iterator[Pair]:
    """The leader and the strongest opponent of a problem, if it has both in this environment."""
    board = present(plan, problem)
    best = board.best_opponent if board else None
    opponent = plan.opponents.named(best.iteration) if best else None
    if board is not None and opponent is not None and not opponent.missing and board.leader is not None:
        leader = board.leader
        path = plan.tree.source(plan.gpu.key, problem.shape_key, leader.model, leader.iteration)
        yield plan.tree.parse(path), opponent.entry(problem, plan.gpu)


def reusable(plan: Plan, pair: Pair) -> PairRecord | None:
    """The record that another run of the same pair would only repeat."""
    leader, opponent = pair
    here, path = plan.environment(leader.problem.operator), plan.tree.pairs(leader.gpu, leader.shape_key)
    opposed = opponent_fields(plan.tree, opponent)
    return repeated(plan, leader, here, path, PairRecord, lambda record: opposes(record, opposed))


def opponent_fields(tree: Tree, against: OpponentEntry | None) -> dict[str, Any]:
    """The fields of a record that say which opponent ran in the library's place."""
    source, imports = tree.hashes(against) if against is not None else (None, None)
    name = against.name if against is not None else None
    return {"opponent": name, "opponent_sha256": source, "opponent_imports_sha256": imports}


def opposes(record: PairRecord | SustainedRecord, opposed: dict[str, Any]) -> bool:
    return all(getattr(record, name) == value for name, value in opposed.items())


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


def _measured(plan: Plan, pair: Pair, referees: Referees) -> PairRecord:
    leader, opponent = pair
    candidate = plan.enter(leader, referees)
    candidate.against = opponent
    opposed = opponent_fields(plan.tree, opponent)
    rejection = judged(candidate)
    measured = None if rejection is not None else candidate.measurement
    return PairRecord(**outcome(plan, candidate, rejection), **opposed, measurement=measured)
