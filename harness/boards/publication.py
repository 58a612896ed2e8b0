"""Publication: the best kernel of each problem as data for users of kernels/, read from its source."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import msgspec

from harness.boards import leaderboard
from harness.boards.board import Board, BoardRow
from harness.catalog.families import COMPILED, COMPILER_LEVERS
from harness.catalog.tree import Selection, Tree
from harness.judge import contract
from harness.judge.facts.import_reader import imports_of
from harness.machine.table import bounded
from harness.records.base import Status
from harness.records.published import Publication, Winner

DIGITS: Final = 4  # as on the leaderboard


class Unreadable(Exception):
    """A source that is not ``return family(problem, **CONFIG)``; the text says why."""


@dataclass(frozen=True, slots=True)
class Call:
    """An iteration's call of a family. If ``wrapped``, some levers go to the compiler."""

    family: str
    levers: dict[str, Any]
    wrapped: bool


def publication(tree: Tree, gpu: str, before: Publication) -> tuple[Publication, list[str]]:
    """The winners by the leaderboard, and a line for each iteration that was passed over.

    A winner published ``before`` stays while its row is stale, unless its own source has changed. So neither a stricter
    judge nor an edit of a family takes a kernel away before it is measured again.
    """
    boards, complaints = leaderboard.boards(tree, gpu, Selection())
    winners: dict[str, Winner] = {}
    library: dict[str, str] = {}
    sustained: dict[str, Winner | str] = {}
    for problem, group in groupby(boards, key=lambda board: board.problem):
        held, known = list(group), before.winners.get(problem)
        said = _best(tree, gpu, held, complaints, known) or before.library.get(problem)
        if isinstance(said, Winner):
            winners[problem] = said
        elif said is not None:
            library[problem] = said
        at_limit = _at_limit(tree, gpu, held, said, before.sustained.get(problem))
        if at_limit is not None:
            sustained[problem] = at_limit
    return Publication(gpu, winners, library, sustained), complaints


def _best(
    tree: Tree, gpu: str, boards: list[Board], complaints: list[str], known: Winner | None
) -> Winner | str | None:
    """The first row with a readable source, in the newest environment with valid rows; or why there is no winner.

    None if no row is valid, or if no kernel is a family's: kernels written in an iteration are not published.
    """
    for board in boards:
        rows = [row for row in board.rows if _holds(row, row.record, known) and not row.is_baseline]
        if not rows:
            continue
        calls = {(row.model, row.iteration): _call(tree, gpu, row) for row in rows}
        if not any(isinstance(call, Call) for call in calls.values()):
            return None
        for row in (row for row in rows if row.is_ahead):
            call = calls[row.model, row.iteration]
            if isinstance(call, Call):
                return _winner(row, call)
            complaints.append(f"{row.problem}/{row.model}/{row.iteration}: passed over: {call}")
        return f"no kernel is above {board.baseline} for sure{_nearest(rows)}"
    return None


def _at_limit(
    tree: Tree, gpu: str, boards: list[Board], paired: Winner | str | None, known: Winner | str | None
) -> Winner | str | None:
    """What is certainly faster at the power limit than the choice at equal clocks; None where nothing is.

    The choice's own figures are compared with the others', and 1 where it is the library.
    """
    for board in boards:
        rows = {row.record: row for row in board.rows if row.sustained_ratio is not None and not row.is_baseline}
        chosen = rows.get(paired.record) if isinstance(paired, Winner) else None
        if not rows or paired is None or (chosen is None and isinstance(paired, Winner)):
            continue
        least = max(1.0, chosen.sustained_ratio_high or 0.0) if chosen is not None else 1.0
        for row in sorted(rows.values(), key=lambda row: -(row.sustained_ratio or 0)):
            call = _call(tree, gpu, row)
            leads = _holds(row, row.sustained_record, known) and (row.sustained_ratio_low or 0) > least
            if leads and isinstance(call, Call):
                return _winner(_as_sustained(row), call)
        if chosen is not None and (chosen.sustained_ratio_high or 0) < 1:
            return f"no kernel is above {board.baseline} for sure at the power limit{_nearest([_as_sustained(chosen)])}"
        return None  # older environments say nothing of this one
    return None


def _as_sustained(row: BoardRow) -> BoardRow:
    """The row with the record, the ratio and the interval of the sustained regime."""
    return msgspec.structs.replace(
        row,
        record=row.sustained_record,
        ratio=row.sustained_ratio,
        ratio_low=row.sustained_ratio_low,
        ratio_high=row.sustained_ratio_high,
    )


def _call(tree: Tree, gpu: str, row: BoardRow) -> "Call | Unreadable":
    path = tree.source(gpu, row.problem, row.model, row.iteration)
    try:
        return read_call(path.read_text(encoding="utf-8-sig"))
    except Unreadable as error:
        return error
    except (OSError, UnicodeError) as error:
        return Unreadable(f"its source cannot be read: {error}")


def _holds(row: BoardRow, record: str | None, known: Winner | str | None) -> bool:
    """Whether a row may be published: measured as users run it, and not stale or ``known`` by its record."""
    apart = row.environment is not None and (row.environment.forced or row.environment.locked_mhz is not None)
    stays = isinstance(known, Winner) and record == known.record and "source" not in row.stale
    return row.status == Status.PASSED and row.ratio is not None and (stays or not row.stale) and not apart


def _nearest(rows: Iterable[BoardRow]) -> str:
    row = max(rows, key=lambda row: row.ratio or 0, default=None)
    return "" if row is None else f": {row.model}/{row.iteration} has {bounded(row)}"


def _winner(row: BoardRow, call: Call) -> Winner:
    assert row.ratio is not None and row.ratio_low is not None and row.ratio_high is not None
    assert row.environment is not None and row.record is not None
    apart = {name: call.levers[name] for name in COMPILER_LEVERS if call.wrapped and name in call.levers}
    return Winner(
        family=call.family,
        levers={name: value for name, value in call.levers.items() if name not in apart},
        ratio=round(row.ratio, DIGITS),
        low=round(row.ratio_low, DIGITS),
        high=round(row.ratio_high, DIGITS),
        iteration=f"{row.model}/{row.iteration}",
        record=row.record,
        device=row.environment.device,
        torch=row.environment.torch,
        tilelang=row.environment.tilelang,
        **apart,
    )


def read_call(source: str) -> Call:
    """The family and its literal levers in a source. Raises Unreadable."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Unreadable(f"it does not parse: {error}") from None
    imported = (each for node in module.body for each in imports_of(node) if each.name and not each.relative)
    names = {each.bound: each.full for each in imported}
    build = next((each for each in module.body if isinstance(each, ast.FunctionDef) and each.name == "build"), None)
    if build is None or len(build.args.args) != 1:
        raise Unreadable("it has no build(problem)")
    statement = build.body[-1]
    call = statement.value if isinstance(statement, ast.Return) and len(build.body) == 1 else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise Unreadable("its build is more than one call of a family")
    family, arguments = names.get(call.func.id), call.args
    wrapped = family == COMPILED
    if wrapped and arguments and isinstance(arguments[0], ast.Name):
        family, arguments = names.get(arguments[0].id), arguments[1:]
    problem = build.args.args[0].arg
    if family is None or not family.startswith("kernels."):
        raise Unreadable("what its build calls is not a family of kernels/")
    if len(arguments) != 1 or not isinstance(arguments[0], ast.Name) or arguments[0].id != problem:
        raise Unreadable("its build gives the family more than the problem and levers by name")
    return Call(family, dict(_levers(module, call.keywords)), wrapped)


def _levers(module: ast.Module, keywords: list[ast.keyword]) -> Iterator[tuple[str, Any]]:
    for keyword in keywords:
        if keyword.arg is not None:
            yield keyword.arg, _literal(keyword.value)
            continue
        if not isinstance(keyword.value, ast.Name):
            raise Unreadable("its build unpacks something that is not a constant's name")
        found = contract.levers(module, keyword.value.id)
        if found is None:
            raise Unreadable(f"{keyword.value.id} is no dict of literals")
        yield from found.items()


def _literal(value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise Unreadable(f"'{ast.unparse(value)[:60]}' is not a literal") from None
