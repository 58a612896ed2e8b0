"""Tables for a terminal: the leaderboard, comparisons, and a play-off."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from harness.boards.board import FAMILY, NOT_MEASURED, Board, BoardRow, newest
from harness.boards.comparison import Change, Comparison
from harness.boards.power import drawn, of_ceiling
from harness.boards.rivals import rivalry
from harness.catalog import names
from harness.catalog.gpus import find
from harness.catalog.tree import Selection, Tree
from harness.errors import meant
from harness.machine import hints
from harness.machine.table import PLAIN, SHORTEST, counted, figure, footnotes, interval, paragraph, table, with_interval
from harness.records.base import Regime, RowKind, Status
from harness.records.playoffs import PlayOff
from harness.records.throughput import GFLOPS, TFLOPS

_Columns = dict[str, Callable[[Any], object]]
_LEGEND: Final = "kept as: the leader of the board, or a step, which was certainly faster than its ladder before it"
_MEANINGS: Final = {
    "±": "half of the 95% interval",
    "vs best": "beside the strongest opponent",
    "~": "from two ratios to the library",
    "N level": "as many more at rank 1",
}
_UNTOUCHED: Final = "not measured between the two"  # one record on both sides


def leaders(boards: Sequence[Board], table_format: str = PLAIN) -> str:
    """One line for each problem: the first row of its newest board, below the environments.

    An empty optional column is left out. On a narrow terminal the first of ``optional`` are, too.
    """
    found = list(newest(boards).values())
    shown = [board for board in found if board.competes] or found
    models = {board.leader.model for board in shown if board.leader}
    columns: _Columns = {
        "problem": lambda board: board.problem,
        "leader": lambda board: (
            board.leader.iteration if board.leader else "none passed" if board.environment else NOT_MEASURED
        ),
        "model": _of_leader(lambda row: row.model if len(models) > 1 else ""),
        "ratio": _of_leader(lambda row: figure(row.ratio, ".4f")),
        "±": _of_leader(lambda row: figure(row.half_width, ".2%")),
        "sustained": _of_leader(lambda row: figure(row.sustained_ratio, ".4f")),
        "vs best": lambda board: against.figure if (against := rivalry(board)) else "",
        "sustained vs best": lambda board: against.figure if (against := rivalry(board, Regime.SUSTAINED)) else "",
        "time_ms": _of_leader(lambda row: figure(row.time_ms)),
        "rate": lambda board: board.leader_rate or "",
        "notes": _remarks,
    }
    body = table(
        shown,
        columns,
        table_format,
        right=("ratio", "±", "sustained", "vs best", "sustained vs best", "time_ms", "rate"),
        optional=("rate", "time_ms", "notes", "model", "sustained vs best", "sustained", "±", "vs best"),
        cut={"leader": SHORTEST, "model": SHORTEST},
    )
    measured = [board for board in shown if board.leader] or shown
    where = dict.fromkeys(_where(board) for board in measured if board.environment is not None)
    head = [f"{key}: the leader of each problem" for key in dict.fromkeys(board.gpu for board in shown)]
    head += [paragraph(line) for line in where]
    return "\n".join([*head, "", body, "", paragraph(_summary(shown, body))])


def leaderboard(board: Board, table_format: str = PLAIN) -> str:
    """The table of one problem, below a line with its environment. Raises UsageError for an unknown format."""
    plain = table_format == PLAIN
    rate, scale = _rate(board)
    several = not plain or len({row.model for row in board.rows}) > 1
    columns: _Columns = {
        "rank": lambda row: figure(row.rank, "d"),
        "iteration": lambda row: row.iteration,
        "model": lambda row: row.model if several else "",
        "time_ms": lambda row: figure(row.time_ms),
        rate: lambda row: _share(row) if board.in_gbs else figure(row.tflops and row.tflops * scale),
        "ratio": lambda row: figure(row.ratio, ".4f"),
        "95% interval": lambda row: interval(row.ratio_low, row.ratio_high),
        "sustained": lambda row: figure(row.sustained_ratio, ".4f"),
        "vs best": lambda row: figure(row.vs_best, ".4f"),
        "max_abs_err": lambda row: figure(row.max_abs_err, ".2g"),
        "kept as": lambda row: row.kept_as,
        "bound": lambda row: row.bound or "",
    }
    columns |= {} if plain else {"notes": lambda row: "; ".join(_notes(row))}
    rows = (*board.rows, *board.opponents)
    body = table(
        rows,
        columns,
        table_format,
        right=("rank", "time_ms", rate, "ratio", "sustained", "vs best", "max_abs_err"),
        optional=("max_abs_err", rate, "bound", "time_ms", "model", "kept as", "sustained", "vs best"),
        cut={"iteration": 24, "model": 12},
    )
    said = _environment(board)
    below = footnotes((_short(row, several=several), _notes(row)) for row in rows) if plain else ""
    return f"{board.problem} on {board.gpu}\n{paragraph(said) if plain else said}\n\n{body}\n" + (
        f"\n{below}\n" if below else ""
    )


def ladders(boards: Sequence[Board], table_format: str = PLAIN) -> str:
    """The table of each board, and below them what their words mean."""
    shown = [leaderboard(board, table_format) for board in boards]
    return "\n".join([*shown, *([paragraph(_LEGEND)] if any("kept as" in each for each in shown) else ())])


def comparisons(found: list[Comparison], table_format: str = PLAIN) -> str:
    """The comparisons of two runs: changes first, then equals, then those that cannot be compared.

    What was not measured between the two has one record on both sides, and is only counted.
    """
    order = list(Change)
    between = [each for each in found if each.a is None or each.a != each.b]
    ordered = sorted(between, key=lambda each: (order.index(each.verdict), each.problem))
    columns: _Columns = {
        "problem": lambda each: each.problem,
        "model": lambda each: each.model,
        "iteration": lambda each: each.iteration,
        "verdict": lambda each: each.verdict.value,
        "change": lambda each: "" if each.quotient is None else f"{100 * (each.quotient - 1):+.2f}%",
        "95% interval": lambda each: interval(each.low, each.high),
        "ratio A": lambda each: figure(each.ratio_a, ".4f"),
        "ratio B": lambda each: figure(each.ratio_b, ".4f"),
    }
    plain = table_format == PLAIN
    columns |= {} if plain else {"notes": _why}
    body = table(
        ordered,
        columns,
        table_format,
        right=("change", "ratio A", "ratio B"),
        optional=("ratio A", "ratio B"),
        cut={"iteration": 12, "model": 8},
        wrap={"problem": 16},
    )
    below = footnotes((f"{each.problem} {each.iteration}", filter(None, [_why(each)])) for each in ordered)
    counts = Counter(each.verdict.value for each in between)
    counts[_UNTOUCHED] = len(found) - len(between)
    told = ", ".join(f"{count} {words}" for words in (*order, _UNTOUCHED) if (count := counts[words]))
    return "\n\n".join(filter(None, (body if between else "", below if plain else "", told)))


def play_off(held: PlayOff) -> str:
    """The order of a play-off, each entry with its distance from the first."""
    columns: _Columns = {
        "model": lambda each: each.model,
        "iteration": lambda each: each.iteration,
        "ratio": lambda each: f"{statistics.geometric_mean(each.ratios):.4f}",
        "behind": lambda each: "" if each.behind == 1 else f"{100 * (each.behind - 1):.2f}%",
        "95% interval, %": lambda each: (
            "" if each.behind == 1 else f"[{100 * (each.low - 1):.2f}, {100 * (each.high - 1):.2f}]"
        ),
    }
    regime = ", at the power limit" if held.regime is Regime.SUSTAINED else ""
    title = f"{held.shape_key} on {held.gpu}, {len(held.standings[0].ratios)} rounds{regime}"
    body = table(held.standings, columns, right=("ratio", "behind"), cut={"iteration": 24, "model": 12})
    return f"{paragraph(title)}\n\n{body}"


def narrowing(selection: Selection) -> str:
    """A selection as command-line options."""
    named = {"shape": selection.shape, "model": selection.model, "iter": selection.iteration}
    parts = {**named, "share": selection.share, "set": selection.set}
    return ", ".join(f"--{name} {value}" for name, value in parts.items() if value is not None)


def no_iteration(tree: Tree, key: str, selection: Selection, name: str = "iteration") -> str:
    """The complaint that a selection is empty, with what may have been meant, or with how to begin."""
    words = narrowing(selection)
    rest = (
        f"matches {words}"
        if words
        else f"yet; `{hints.program()} new --gpu {key} --shape KEY --model NAME` begins a ladder"
    )
    return f"no {name} under tuning/{key}/ {rest}{near(tree, key, selection)}"


def near(tree: Tree, key: str, selection: Selection) -> str:
    """What an empty selection may have meant: the nearest shape and model, or the last iteration of the ladder."""
    present, _ = tree.scan(key, Selection())
    ladder = [each for each in present if selection.takes_problem(each.shape_key)]
    own = [each for each in ladder if selection.model in (None, each.model)]
    told = [tree.like(key, selection.shape), meant(selection.model, sorted({each.model for each in ladder}))]
    if selection.shape and selection.iteration and own and not any(told):
        number, _ = names.wanted(selection.iteration)
        same = [f"; number {number} is {each.name}" for each in own if each.number == number]
        told = same[:1] or [f"; the last is {max(own, key=lambda each: each.number).name}"]
    return "".join(told)


def _of_leader(fill: Callable[[BoardRow], str]) -> Callable[[Board], str]:
    return lambda board: fill(board.leader) if board.leader else ""


def _remarks(board: Board) -> str:
    """What a reader of the leader must know, in a word or two."""
    leader = board.leader
    if leader is None:
        return ""
    level = sum(row.rank == 1 for row in board.rows) - 1
    other, against, there = board.sustained_leader, rivalry(board), rivalry(board, Regime.SUSTAINED)
    leads = f"{names.ordinal_in(other.iteration)} leads sustained" if other else ""
    said = (
        (f"{against.opponent.iteration} is faster" if against else "", against and against.opponent_leads),
        (f"{there.opponent.iteration} is faster sustained" if there else "", there and there.opponent_leads),
        (leads, other),
        (f"{level} level", level),
        ("stale", leader.stale),
        ("unstable", leader.unstable),
    )
    return ", ".join(word for word, holds in said if holds)


def _summary(boards: Sequence[Board], body: str) -> str:
    """What the leaders' table says in all, and what the words of its ``body`` mean."""
    led = [board.leader for board in boards if board.leader]
    said = [f"{counted(len(boards), 'problem')}, {len(led)} with a leader"]
    if led:
        middle = statistics.median(row.ratio for row in led if row.ratio)
        said[0] += f", {sum(row.is_ahead for row in led)} certainly faster than the library; median {middle:.3f}"
        said += [f"{word}: {meaning}" for word, meaning in _MEANINGS.items() if word.removeprefix("N") in body]
    rivals, there = (
        sum(found.opponent_leads for board in boards if (found := rivalry(board, regime))) for regime in Regime
    )
    others = sum(board.sustained_leader is not None for board in boards)
    said += [f"An opponent is certainly faster in {rivals}"] if rivals else []
    said += [f"An opponent is certainly faster at the power limit in {there}"] if there else []
    said += [f"Another iteration leads at the power limit in {others}"] if others else []
    if stale := [row.stale for row in led if row.stale]:
        changed = " or the ".join(sorted({each for row in stale for each in row}))
        hint = f", and {hints.program()} freshen finds the rows that keep their code" if (FAMILY,) in stale else ""
        said.append(f"{len(stale)} stale: the {changed} has changed since{hint}")
    return f"{'. '.join(said)}. --shape KEY shows one ladder, --all every one."


def regimes(board: Board) -> str:
    """A sentence where another iteration leads at the power limit, or where nothing is known of it there."""
    leader, other = board.leader, board.sustained_leader
    if leader is None:
        return ""
    if other is None:
        unknown = not (board.at_limit or board.in_gbs or find(board.gpu).is_cpu)
        return "no figure at the power limit" if unknown else ""
    reached = with_interval(other.sustained_ratio, other.sustained_ratio_low, other.sustained_ratio_high)
    there = f"at the power limit {other.iteration} does, with {reached}"
    without = f", where {leader.iteration} is not measured" if leader.sustained_ratio is None else ""
    return f"at equal clocks {leader.iteration} leads; {there}{without}"


def _where(board: Board) -> str:
    assert board.environment is not None
    return board.environment.line() + (f"; timer {board.timer}" if board.timer else "")


def _environment(board: Board) -> str:
    """Where a board was measured, against what, and how fine its figures are."""
    if board.environment is None:
        return "not measured yet"
    parts = [_where(board)]
    if board.chips:
        parts.append(f"measured on {counted(board.chips, 'chip')}")
    if board.baseline_rate:
        parts.append(f"ratio to {board.baseline} at {board.baseline_rate}")
    if board.copy_gbs is not None:
        parts.append(f"memory-bound: a copy of as many bytes reaches {board.copy_gbs:.4g} GB/s")
    if board.resolution is not None:
        parts.append(f"resolution ±{board.resolution:.2%}, the median half of the 95% intervals")
    parts += filter(None, [regimes(board)])
    return "; ".join(parts)


def _rate(board: Board) -> tuple[str, float]:
    """The name of the column of throughput, and what TFLOPS are multiplied by to be in its unit."""
    if board.in_gbs:
        return "GB/s, of copy", 1.0
    unit = board.baseline_rate.legible.unit if board.baseline_rate else TFLOPS
    return unit, 1e3 if unit == GFLOPS else 1.0


def _share(row: BoardRow) -> str:
    return figure(row.gbs) + ("" if row.of_copy is None else f", {row.of_copy:4.0%}")


def _behind(quotient: float) -> str:
    return "first" if quotient == 1 else f"{100 * (quotient - 1):.2f}% behind"


def _notes(row: BoardRow) -> Iterable[str]:
    if row.dynamic:
        yield f"one kernel for any {', '.join(row.dynamic)}"
    if row.stale:
        yield f"stale: {', '.join(row.stale)}"
    if row.behind is not None:
        yield f"play-off: {_behind(row.behind)}"
    if row.sustained_ratio is not None:
        yield _sustained(row)
    if row.sustained_behind is not None:
        yield f"sustained play-off: {_behind(row.sustained_behind)}"
    if row.best_opponent is not None:
        yield f"against {row.best_opponent} {with_interval(row.vs_best, row.vs_best_low, row.vs_best_high)}"
    if row.sustained_best_opponent is not None:
        reached = with_interval(row.sustained_vs_best, row.sustained_vs_best_low, row.sustained_vs_best_high)
        yield f"sustained against {row.sustained_best_opponent} {reached}"
    if row.unstable:
        yield "unstable"
    if row.status != Status.PASSED:
        yield row.status if row.reason is None else f"{row.status}: {row.reason}"


def _sustained(row: BoardRow) -> str:
    reached = with_interval(row.sustained_ratio, row.sustained_ratio_low, row.sustained_ratio_high)
    said = [f"sustained {reached}", f"{figure(row.sustained_tflops)} TFLOPS"]
    said += drawn(row.sustained_power_w, row.sustained_sm_mhz, row.pj_per_flop)
    if row.of_ceiling:
        said.append(of_ceiling(row.of_ceiling, borrowed=row.ceiling_borrowed))
    return ", ".join(said)


def _short(row: BoardRow, *, several: bool) -> str:
    """An iteration's number, and its model where there are several; an opponent's name."""
    if row.kind is RowKind.OPPONENT:
        return row.iteration
    number = names.ordinal_in(row.iteration)
    return f"{row.model} {number}" if several else number


def _why(found: Comparison) -> str:
    return found.why or "; ".join(found.notes)
