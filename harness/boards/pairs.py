"""Pairs: the leader of each problem against its strongest opponent, which runs in the library's place."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.boards import leaderboard
from harness.boards.board import Board
from harness.catalog.opponents import OpponentEntry
from harness.catalog.tree import Iteration, Selection
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Referees
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import judged
from harness.judge.verdicts import verdict
from harness.machine.progress import Reporter
from harness.machine.table import bounded
from harness.records.base import Status, identity
from harness.records.pairs import PairRecord
from harness.records.store import read
from harness.runs import opponents
from harness.runs.opponents import USUAL_S, OpponentPlan, one_by_one
from harness.runs.within import TIME_OVER

Pair = tuple[Iteration, OpponentEntry]


def oppose(plan: OpponentPlan, reporter: Reporter) -> None:
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
        one = replace(plan, problems=(problem,))
        opponents.measure(one, reporter)
        measure(one, reporter)


def _has_met(plan: OpponentPlan, problem: Problem) -> bool:
    """Whether the board has a ratio of this problem's leader to an opponent."""
    board = present(plan, problem)
    return board is not None and board.leader is not None and board.leader.vs_best is not None


def measure(plan: OpponentPlan, reporter: Reporter) -> list[PairRecord]:
    """Measure each pair that is not recorded yet; a wrong opponent, or one that fails, has a line and no ratio."""

    def judge(pair: Pair, referees: Referees) -> PairRecord:
        reporter.doing(f"{pair[0]} against {pair[1].name}")
        return _measured(plan, pair, referees)

    def path(made: PairRecord) -> Path:
        return plan.tree.pairs(made.gpu, made.shape_key)

    return one_by_one(plan, pairs(plan), partial(reusable, plan), judge, path, line, reporter)


def pairs(plan: OpponentPlan) -> Iterator[Pair]:
    """The leader and the strongest opponent of each problem that has both in this environment."""
    for problem in plan.problems:
        board = present(plan, problem)
        best = board.best_opponent if board else None
        opponent = plan.opponents.named(best.iteration) if best else None
        if board is None or opponent is None or opponent.missing or board.leader is None:
            continue
        leader = board.leader
        path = plan.tree.source(plan.gpu.key, problem.shape_key, leader.model, leader.iteration)
        yield plan.tree.parse(path), opponent.entry(problem, plan.gpu)


def reusable(plan: OpponentPlan, pair: Pair) -> PairRecord | None:
    """The record that another run of the same pair would only repeat."""
    leader, opponent = pair
    same = (
        record
        for record in reversed(read(plan.tree.pairs(leader.gpu, leader.shape_key), PairRecord)[0])
        if (record.model, record.iteration, record.opponent) == (leader.model, leader.name, opponent.name)
        and _sources(record) == (*plan.tree.hashes(leader), *plan.tree.hashes(opponent))
        and record.environment.repeats(plan.environment(leader.problem), any_chip=plan.any_chip)
    )
    return fault_attribution.standing(same, plan.gpu)


def line(record: PairRecord) -> str:
    """One pair in one line."""
    head = f"{record.status:<9} {record.shape_key} {record.model} {record.iteration} against {record.opponent}: "
    found = record.measurement
    if record.status is not Status.PASSED or found is None:
        return f"{head}{record.reason}"
    return f"{head}{bounded(found)}"


def present(plan: OpponentPlan, problem: Problem) -> Board | None:
    """The board of this machine as it is now."""
    boards, _ = leaderboard.boards(plan.tree, plan.gpu.key, Selection(shape=problem.shape_key))
    return next(
        (
            board
            for board in boards
            if board.environment is not None
            and board.timer == plan.gpu.timer
            and board.environment.rank_key == plan.environment(problem).rank_key
        ),
        None,
    )


def _sources(record: PairRecord) -> tuple[str, ...]:
    own = record.source_sha256, record.families_sha256
    return (*own, record.opponent_sha256, record.opponent_imports_sha256)


def _measured(plan: OpponentPlan, pair: Pair, referees: Referees) -> PairRecord:
    leader, opponent = pair
    candidate = Candidate.enter(leader, plan.tree.root, plan.gpu, plan.device, plan.settings, referees)
    candidate.against = opponent
    source, imports = plan.tree.hashes(opponent)
    rejection = judged(candidate)
    return PairRecord(
        **identity(leader),
        **verdict(rejection),
        opponent=opponent.name,
        opponent_sha256=source,
        opponent_imports_sha256=imports,
        source_sha256=candidate.source_sha256,
        families_sha256=candidate.families_sha256,
        environment=plan.environment(leader.problem).with_libraries(candidate.libraries),
        measurement=None if rejection is not None else candidate.measurement,
    )
