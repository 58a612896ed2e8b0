"""The order of rows: by ratio, by a play-off among the first, and again at the power limit."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from harness.boards.board import Board, BoardRow, by_sustained, same_code
from harness.catalog.tree import Tree
from harness.judge.statistics import interval
from harness.records.base import Regime
from harness.records.playoffs import PlayOff, PlayOffEntry

Name = tuple[str, str]  # model and iteration


def ranked(rows: list[BoardRow], judges: Iterable[str]) -> list[BoardRow]:
    """Rank rows by ratio; a row shares a rank if its interval reaches that of the rank's first row.

    ``judges`` are the judges' hashes, the last that measured first. Rows of an earlier judge follow those of a later
    one, and all follow those of the present one: their ratios may be to another baseline.
    """
    judged = [(row.environment.judge_sha256, row) for row in rows if row.environment is not None]
    present = {judge for judge, row in judged if "judge" not in row.stale}
    found: list[BoardRow] = []
    for judge in sorted(judges, key=lambda each: each not in present):
        placed = _placed(row for of, row in judged if of == judge)
        found += [msgspec.structs.replace(row, rank=(row.rank or 0) + len(found)) for row in placed]
    return found


def _placed(rows: Iterable[BoardRow]) -> list[BoardRow]:
    ordered = sorted(rows, key=lambda row: -(row.ratio or 0))
    places = ranks((row.ratio_low or 0.0, row.ratio_high or 0.0) for row in ordered)
    return [msgspec.structs.replace(row, rank=rank) for row, rank in zip(ordered, places, strict=True)]


def ranked_at_limit(tree: Tree, board: Board, play_offs: list[PlayOff]) -> Board:
    """Rank the rows with a sustained figure by it; a play-off in that regime orders those of the first rank."""
    rows = [row for row in board.rows if row.sustained_ratio is not None and row.rank is not None]
    rows.sort(key=lambda row: -by_sustained(row))
    places = ranks((row.sustained_ratio_low or 0.0, row.sustained_ratio_high or 0.0) for row in rows)
    found: dict[Name, tuple[int, float | None]] = {
        _named(row): (place, None) for row, place in zip(rows, places, strict=True)
    }
    first = {_named(row): row for row in rows if found[_named(row)] == (1, None)}
    if held := _deciding(tree, first, play_offs, Regime.SUSTAINED):
        found |= _order(first, held)

    def placed(row: BoardRow) -> BoardRow:
        rank, behind = found.get(_named(row), (None, None))
        return msgspec.structs.replace(row, sustained_rank=rank, sustained_behind=behind)

    return board.each(placed)


def _named(row: BoardRow) -> Name:
    return row.model, row.iteration


def ranks(intervals: Iterable[tuple[float, float]]) -> Iterator[int]:
    """The ranks of intervals (low, high), given best first."""
    rank, lead_low = 0, 0.0
    for position, (low, high) in enumerate(intervals, start=1):
        if position == 1 or high < lead_low:
            rank, lead_low = position, low
        yield rank


def decided_by(tree: Tree, board: Board, play_offs: list[PlayOff]) -> Board:
    """Order the rows of the first rank by the newest play-off that all of them took part in."""
    first = {_named(row): row for row in board.rows if row.rank == 1}
    held = _deciding(tree, first, play_offs, Regime.PAIRED)
    if held is None:
        return board
    order = _order(first, held).items()
    ordered = (msgspec.structs.replace(first[name], rank=rank, behind=behind) for name, (rank, behind) in order)
    return replace(board, rows=(*ordered, *board.rows[len(first) :]))


def _deciding(tree: Tree, first: Mapping[Name, BoardRow], play_offs: list[PlayOff], regime: Regime) -> PlayOff | None:
    """The newest play-off of a regime that all of these rows took part in, as they are now."""
    for held in reversed(play_offs):
        standings = {(each.model, each.iteration): each for each in held.standings}
        if held.regime is not regime or len(first) < 2 or not first.keys() <= standings.keys():
            continue
        if all(_played(tree, row, held, standings[name]) for name, row in first.items()):
            return held
    return None


def _played(tree: Tree, row: BoardRow, held: PlayOff, standing: PlayOffEntry) -> bool:
    """Whether a row has the code, the judge and the environment of the play-off."""
    assert row.environment is not None and row.timer is not None
    if row.edited or not held.applies(row.environment, row.timer):
        return False
    return same_code(tree, row, standing, held.environment.tilelang)


def _order(first: Mapping[Name, BoardRow], held: PlayOff) -> dict[Name, tuple[int, float]]:
    """Rank and distance in the play-off's order; those that may be as fast as the first share its rank.

    The first of the play-off may have left the board since: the distance is from the first that is there.
    """
    found: dict[Name, tuple[int, float]] = {}
    rank = 1
    present = [each for each in held.standings if (each.model, each.iteration) in first]
    for position, standing in enumerate(present, start=1):
        behind, low, _ = distance(present[0].ratios, standing.ratios)
        if low > 1 and rank == 1:
            rank = position
        found[standing.model, standing.iteration] = rank, behind
    return found


def distance(first: Sequence[float], own: Sequence[float]) -> tuple[float, float, float]:
    """How many times as fast the first is, by the ratios of each round: the geometric mean and its interval."""
    center, half = interval([math.log(one) - math.log(other) for one, other in zip(first, own, strict=True)])
    return math.exp(center), math.exp(center - half), math.exp(center + half)
