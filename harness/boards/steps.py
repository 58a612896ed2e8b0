"""A set's step: how many times as fast a set of kernels makes it, from the leaders of its problems."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from harness.boards import dynamic
from harness.boards.board import Board, BoardRow, newest
from harness.boards.dynamic import DynamicKernel, dynamic_kernels
from harness.catalog.problem_sets import ProblemSet
from harness.judge.facts.problem import parse_shape_key
from harness.machine.table import figure, interval, paragraph
from harness.records.base import Regime


class StepTotal(msgspec.Struct, frozen=True):
    """The library's time of a step over that of the leaders, over all problems with a figure in one regime.

    ``flops_share`` is their share of the set's useful operations. Figures are None where no problem has one.
    """

    regime: Regime
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    library_ms: float | None
    kernels_ms: float | None
    calls: float
    flops_share: float
    without_row: tuple[str, ...]
    stale: int


class StepBoard(msgspec.Struct, frozen=True):
    """A set of problems: its totals in both regimes, the rows of its problems, and its dynamic kernels."""

    set: str
    what: str
    source: str
    without: str
    calls: Mapping[str, float]
    totals: tuple[StepTotal, ...]
    rows: tuple[BoardRow, ...]
    dynamic: tuple[DynamicKernel, ...] = ()


class _Call(msgspec.Struct, frozen=True):
    """One problem of a step: its leader's time in all calls, and the ratio with its bounds."""

    row: BoardRow
    kernels_ms: float
    ratio: float
    low: float
    high: float


def step_board(name: str, given: ProblemSet, boards: Sequence[Board]) -> StepBoard:
    """The totals of a set from the newest board of each of its problems."""
    rows = tuple(row for board in boards for row in (*board.rows, *board.opponents))
    totals = tuple(_total(regime, given.calls, newest(boards)) for regime in Regime)
    kernels = dynamic_kernels(boards, given.calls)
    return StepBoard(name, given.what, given.source, given.without, given.calls, totals, rows, kernels)


def _total(regime: Regime, calls: Mapping[str, float], boards: Mapping[str, Board]) -> StepTotal:
    """Each problem's share of the kernels' time weighs its ratio, and so its interval; problems are independent."""
    found = {key: call for key in calls if key in boards and (call := _call(regime, boards[key], calls[key]))}
    flops = {key: weight * parse_shape_key(key).flops for key, weight in calls.items()}
    kernels_ms = math.fsum(each.kernels_ms for each in found.values())
    shares = [(each, each.kernels_ms / kernels_ms) for each in found.values()] if kernels_ms else []
    ratio = math.fsum(share * each.ratio for each, share in shares)
    below = math.hypot(*(share * (each.ratio - each.low) for each, share in shares))
    above = math.hypot(*(share * (each.high - each.ratio) for each, share in shares))
    return StepTotal(
        regime,
        ratio=ratio if shares else None,
        ratio_low=ratio - below if shares else None,
        ratio_high=ratio + above if shares else None,
        library_ms=ratio * kernels_ms if shares else None,
        kernels_ms=kernels_ms if shares else None,
        calls=math.fsum(calls[key] for key in found),
        flops_share=math.fsum(flops[key] for key in found) / (math.fsum(flops.values()) or 1.0),
        without_row=tuple(key for key in calls if key not in found),
        stale=sum(bool(each.row.stale) for each in found.values()),
    )


def _call(regime: Regime, board: Board, weight: float) -> _Call | None:
    row = board.leader if regime is Regime.PAIRED else board.first_at_limit
    if row is None:
        return None
    if regime is Regime.PAIRED:
        figures = row.time_ms, row.ratio, row.ratio_low, row.ratio_high
    else:
        tflops = row.sustained_tflops
        launch_ms = parse_shape_key(row.problem).flops / (1e9 * tflops) if tflops else None
        figures = launch_ms, row.sustained_ratio, row.sustained_ratio_low, row.sustained_ratio_high
    time_ms, ratio, low, high = figures
    if time_ms is None or ratio is None or low is None or high is None:
        return None
    return _Call(row, weight * time_ms, ratio, low, high)


def told(board: StepBoard) -> str:
    lines = [f"{board.set}: {board.what}".rstrip(": "), *(_sentence(total, board) for total in board.totals)]
    lines += [f"the set leaves out {board.without}"] if board.without else []
    return "\n".join(filter(None, (dynamic.told(board.dynamic), *(paragraph(each, "  ") for each in lines))))


def _sentence(total: StepTotal, board: StepBoard) -> str:
    where = "at equal clocks" if total.regime is Regime.PAIRED else "at the power limit"
    if total.ratio is None:
        return f"{where}: no problem of the set has a measured row"
    times = f"library {figure(total.library_ms, '.4g')} ms, kernels {figure(total.kernels_ms, '.4g')} ms"
    bounds = interval(total.ratio_low, total.ratio_high)
    part = "the measured part of the step" if total.without_row else "the step"
    said = f"{where}: this set of kernels makes {part} {total.ratio:.4f} times as fast {bounds}; {times}"
    if total.stale:
        said += f"; {total.stale} of these rows are stale"
    if total.without_row:
        every = math.fsum(board.calls.values())
        left = f"{len(total.without_row)} of {len(board.calls)} problems, {every - total.calls:g} of {every:g} calls"
        said += f"; no row: {left}, {1 - total.flops_share:.1%} of the work: {', '.join(total.without_row)}"
    return said
