"""The leaderboard: the newest record of each iteration, ranked. It reads files and changes none."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from harness.boards import comparable
from harness.boards.board import KEEP, Board, BoardRow
from harness.boards.comparable import Group
from harness.boards.held import Held
from harness.boards.ranking import decided_by, ranked, ranked_at_limit
from harness.boards.rows import beside, decided, refuted, row_of, sustained_figures
from harness.catalog.opponents import Opponent, Opponents
from harness.catalog.tree import Iteration, Selection, Tree
from harness.judge.facts.hashes import reading
from harness.records.base import Status
from harness.records.ceilings import CeilingRecord
from harness.records.ceilings import newest as ceiling_of
from harness.records.profiles import Bound
from harness.records.results import Record
from harness.records.store import read
from harness.records.sustained import SustainedMeasurement
from harness.records.throughput import throughput
from harness.runs import copy_bandwidth


@reading()
def boards(tree: Tree, gpu: str, selection: Selection) -> tuple[list[Board], list[str]]:
    """Every problem's boards, the newest environment first, and complaints about unreadable lines and files.

    A selected iteration keeps its rank and its decision among all iterations of its problem.
    """
    selected, misplaced = tree.scan(gpu, selection)
    everyone = tree.scan(gpu, replace(selection, iteration=None))[0] if selection.iteration else selected
    ladders: dict[str, list[Iteration]] = {each.shape_key: [] for each in selected}
    for each in everyone:
        if each.shape_key in ladders:
            ladders[each.shape_key].append(each)
    complaints = [each.reason for each in misplaced]
    ceilings, problems = read(tree.ceilings(gpu), CeilingRecord)
    complaints += problems
    members, names = Opponents.of(tree.root).members, {each.key for each in selected}
    result = []
    for ladder in ladders.values():
        held = Held.of(tree, gpu, ladder, complaints)
        for board in _of_problem(held):
            whole = _of_ceiling(held, _with_sustained(held, _with_opponents(held, board, members)), ceilings)
            ordered = ranked_at_limit(tree, decided_by(tree, whole, held.play_offs), held.play_offs)
            # KEEP the rows of the first rank too, whatever their ladders held before them.
            kept = ordered.each(lambda row: msgspec.structs.replace(row, decision=KEEP) if row.rank == 1 else row)
            result.append(replace(kept, rows=tuple(row for row in kept.rows if row.key in names)))
    return [board for board in result if board.rows], complaints


def leading(tree: Tree, gpu: str, selection: Selection) -> list[Iteration]:
    """The best kernel of each problem in its newest environment; library calls are left out."""
    first: dict[str, tuple[str, str, str]] = {}
    for row in (row for board in boards(tree, gpu, selection)[0] for row in board.rows):
        if row.rank is not None and not row.is_baseline:
            first.setdefault(row.problem, row.key)
    return [each for each in tree.scan(gpu, selection)[0] if first.get(each.shape_key) == each.key]


def _of_problem(held: Held) -> list[Board]:
    """A problem's boards, the newest first, which has the iterations without a record at its end."""
    blank = [row_of(held, iteration, None) for iteration in held.unmeasured]
    groups = comparable.groups(held.tree, held.tried)
    if not groups:
        return [Board(held.gpu.key, held.problem.shape_key, None, None, "", None, None, tuple(blank))]
    first, *others = (_of_group(held, group) for group in groups)
    first[0] = replace(first[0], rows=(*first[0].rows, *blank))
    return [board for found in (first, *others) for board in found]


def _of_group(held: Held, group: Group) -> list[Board]:
    """One board per timer, the newest first, which has the failures at its end."""
    rows = decided((each.number, refuted(held, row_of(held, each, record))) for each, record in group)
    newest_first = comparable.newest_first(group)
    measured: dict[str | None, Record] = {}
    for record in newest_first:
        if record.status is Status.PASSED and record.measurement:
            measured.setdefault(record.measurement.timer, record)
    judges = dict.fromkeys(record.environment.judge_sha256 for record in newest_first)
    models = sorted({iteration.model for iteration, _ in group})
    failures = [row for row in rows if row.timer is None or row.status != Status.PASSED]
    result: list[Board] = []
    for timer, record in (measured or {None: group[0][1]}).items():
        ordered = ranked([row for row in rows if timer and row.timer == timer and row.status == Status.PASSED], judges)
        environment, measurement = record.environment, record.measurement if timer else None
        copy_gbs = copy_bandwidth.newest_gbs(held.tree, held.gpu, held.problem, models, environment.rank_key)
        if copy_gbs:
            ordered = [msgspec.structs.replace(row, of_copy=(row.gbs or 0) / copy_gbs) for row in ordered]
        baseline_rate = throughput(held.problem, held.gpu, measurement.baseline_ms) if measurement else None
        result.append(
            Board(
                gpu=held.gpu.key,
                problem=held.problem.shape_key,
                environment=environment,
                timer=timer,
                baseline=measurement.baseline if measurement else "",
                baseline_rate=baseline_rate,
                copy_gbs=copy_gbs,
                rows=(*ordered, *([] if result else failures)),
            )
        )
    return result


def _with_opponents(held: Held, board: Board, members: Iterable[Opponent]) -> Board:
    """Add the opponents measured in the board's environment, and what its rows reached against the strongest."""
    if board.environment is None:
        return board
    found = []
    for opponent in members:
        own = [each for each in held.opponents if each.iteration == opponent.name]
        own = [each for each in own if each.environment.loads_alike(board.environment)]
        repeated = comparable.repeated(held.tree, own).get(board.environment.rank_key)
        record = comparable.of_chip(board.home, repeated) if repeated else None
        if record is not None and (record.measurement is None or record.measurement.timer == board.timer):
            found.append(row_of(held, opponent.entry(held.problem, held.gpu), record))
    found.sort(key=lambda row: (row.status != Status.PASSED, -(row.ratio or 0)))
    board = replace(board, opponents=tuple(found))
    if board.best_opponent is None:
        return board
    best = board.best_opponent.iteration
    return board.each(lambda row: _against(held, row, best))


def _against(held: Held, row: BoardRow, best: str) -> BoardRow:
    """Add the newest pair of the row's code, judge and environment with the strongest opponent."""
    for pair in reversed(held.pairs):
        measured = pair.measurement
        if pair.opponent != best or measured is None or row.environment is None or row.timer is None:
            continue
        if pair.applies(row.environment, row.timer) and held.same_code(row, pair):
            return beside(row, best, measured)
    return row


def _with_sustained(held: Held, board: Board) -> Board:
    """Add the newest figures at the power limit that have the code, the judge and the environment of a row."""

    def newest(row: BoardRow, opponent: str | None) -> tuple[str, SustainedMeasurement] | None:
        for record in reversed(held.sustained):
            measured = record.measurement
            alike = row.environment is not None and record.environment.loads_alike(row.environment)
            if alike and measured is not None and record.opponent == opponent and held.same_code(row, record):
                return (record.id, measured) if measured.counts else None
        return None

    def alone(row: BoardRow) -> BoardRow:
        if (found := newest(row, None)) is None:
            return row
        record_id, measured = found
        bound = Bound.POWER.value if measured.at_limit else row.bound
        return msgspec.structs.replace(row, sustained_record=record_id, bound=bound, **sustained_figures(measured))

    board = replace(board.each(alone), opponents=tuple(map(alone, board.opponents)))
    best = board.sustained_best_opponent
    if best is None:
        return board

    def against(row: BoardRow) -> BoardRow:
        found = newest(row, best.iteration)
        return beside(row, best.iteration, found[1], "sustained_") if found else row

    return board.each(against)


def _of_ceiling(held: Held, board: Board, ceilings: list[CeilingRecord]) -> Board:
    """Add the share of the power ceiling of the chip that measured the row at its limit, where both are known."""
    chips = {record.id: record.environment for record in held.sustained} if ceilings else {}

    def share(row: BoardRow) -> BoardRow:
        here = chips.get(row.sustained_record or "")
        found = here and ceiling_of(ceilings, held.problem.input, here)
        if row.sustained_tflops is None or not (here and found):
            return row
        share = row.sustained_tflops / found.tflops
        facts = {"ceiling_pj_per_flop": found.pj_per_flop, "ceiling_borrowed": found.borrowed(here)}
        return msgspec.structs.replace(row, of_ceiling=share, **facts)

    return board.each(share)
