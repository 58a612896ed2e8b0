"""The leaderboard: the newest record of each iteration, ranked. It reads files and changes none."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from harness.boards.board import CHANGES, DISCARD, FAMILY, KEEP, NOT_MEASURED, Board, BoardRow
from harness.boards.ranking import decided_by, ranked, ranked_at_limit
from harness.boards.row_code import same_code
from harness.catalog import gpus
from harness.catalog.opponents import Opponent, Opponents
from harness.catalog.tree import OPPONENTS_MODEL, Iteration, Selection, Tree
from harness.evidence.report import main_kernel
from harness.judge import builds
from harness.judge.facts.hashes import judge_sha256, reading, source_sha256
from harness.judge.facts.problem import parse_shape_key
from harness.judge.fault_attribution import is_retried
from harness.machine.table import counted
from harness.records.base import Cause, RowKind, Stage, Status
from harness.records.ceilings import CeilingRecord
from harness.records.ceilings import newest as ceiling_of
from harness.records.pairs import PairRecord
from harness.records.playoffs import PlayOff
from harness.records.profiles import Bound, ProfileRecord
from harness.records.profiles import newest as newest_profile
from harness.records.results import Measurement, Record, worst_error
from harness.records.same_code import alike
from harness.records.store import read
from harness.records.sustained import SustainedMeasurement, SustainedRecord
from harness.records.throughput import bandwidth_gbs, throughput
from harness.runs import copy_bandwidth

R = TypeVar("R", bound=msgspec.Struct)
_OF_MEASUREMENT: Final = ("time_ms", "tflops", "ratio", "ratio_low", "ratio_high", "timer", "rounds", "stable")
SustainedRecords = dict[tuple[str, str, str], list[SustainedRecord]]  # by problem, model and name, newest first
Tried = list[tuple[Iteration, list[Record]]]  # iterations of a problem, each with its records
Outcome = Record | SustainedRecord | PairRecord
Outcomes = dict[tuple[str, str, str], list[Outcome]]  # by problem, model and name
_OF_RECORD: Final = ("idea", "config", "parent", "reason", "environment", "dynamic")


@reading()
def boards(tree: Tree, gpu: str, selection: Selection) -> tuple[list[Board], list[str]]:
    """Every problem's boards, the newest environment first, and complaints about unreadable lines and files.

    A selected iteration keeps its rank and its decision among all iterations of its problem.
    """
    selected, misplaced = tree.scan(gpu, selection)
    complaints = [each.reason for each in misplaced]
    shape_keys = {each.shape_key for each in selected}
    everyone = tree.scan(gpu, replace(selection, iteration=None))[0] if selection.iteration else selected
    iterations = [each for each in everyone if each.shape_key in shape_keys]
    tried: dict[str, Tried] = {}
    unmeasured: dict[str, list[BoardRow]] = {}
    bounds: dict[tuple[str, str, str], str] = {}
    alone: SustainedRecords = {}
    wrong: Outcomes = {}
    for (shape_key, model), ladder in _by_folder(iterations).items():
        bounds |= _bounds(tree, ladder, _read(tree.profiles(gpu, shape_key, model), ProfileRecord, complaints))
        at_limit = _read(tree.sustained(gpu, shape_key, model), SustainedRecord, complaints)
        _add_sustained(at_limit, alone)
        records = _read(tree.records(gpu, shape_key, model), Record, complaints)
        _add_wrong((*records, *at_limit), wrong)
        for iteration in ladder:
            own = [record for record in records if record.iteration == iteration.name]
            if own:
                tried.setdefault(shape_key, []).append((iteration, own))
            else:
                unmeasured.setdefault(shape_key, []).append(_row(tree, iteration, None))
    members, names = Opponents.of(tree.root).members, {each.key for each in selected}
    ceilings = _read(tree.ceilings(gpu), CeilingRecord, complaints)
    result = []
    for shape_key in dict.fromkeys(iteration.shape_key for iteration in iterations):
        play_offs = _read(tree.play_offs(gpu, shape_key), PlayOff, complaints)
        _add_sustained(_read(tree.sustained(gpu, shape_key, OPPONENTS_MODEL), SustainedRecord, complaints), alone)
        pairs = _read(tree.pairs(gpu, shape_key), PairRecord, complaints)
        _add_wrong(pairs, wrong)
        blank = unmeasured.get(shape_key, [])
        for board in _of_problem(tree, gpu, shape_key, _compared(tree, tried.get(shape_key, [])), blank, wrong):
            opposed = _with_opponents(tree, _with_bounds(board, bounds), members, pairs, complaints)
            ordered = decided_by(tree, _of_ceiling(_with_sustained(tree, opposed, alone), ceilings), play_offs)
            result.append(_narrowed(_kept(ranked_at_limit(tree, ordered, play_offs)), names))
    return [board for board in result if board.rows], complaints


def _read(path: Path, kind: type[R], complaints: list[str]) -> list[R]:
    records, problems = read(path, kind)
    complaints += problems
    return records


def _compared(tree: Tree, tried: Tried) -> Iterator[list[tuple[Iteration, Record]]]:
    """One record of each iteration in each environment, from as few chips as there are."""
    groups: dict[tuple[str, ...], Tried] = {}
    for iteration, records in tried:
        for key, repeated in _repeated(tree, records).items():
            groups.setdefault(key, []).append((iteration, repeated))
    for group in groups.values():
        home = _home(records for _, records in group)
        yield [(iteration, _of_chip(home, records)) for iteration, records in group]


def _repeated(tree: Tree, records: list[Record]) -> dict[tuple[str, ...], list[Record]]:
    """By rank key the newest outcome, and before it the measurements that it repeats."""
    return {
        key: [*(each for each in records if each.measurement and _repeats(tree, each, newest)), newest]
        for key, newest in latest(records).items()
    }


def _repeats(tree: Tree, one: Record, other: Record) -> bool:
    """Whether both have the same judge, environment and code, on any chip."""
    return one.environment.ranks_with(other.environment) and same_code(tree, other, one, one.environment.tilelang)


def _home(found: Iterable[list[Record]]) -> str:
    """The chip that measured most of the iterations; of equals, the one that measured last."""
    times: dict[str, list[str]] = {}
    for records in found:
        for chip, time in {each.environment.device_uuid: each.recorded_at for each in records}.items():
            times.setdefault(chip, []).append(time)
    return max(times, key=lambda chip: (len(times[chip]), max(times[chip])))


def _of_chip(home: str, records: list[Record]) -> Record:
    """The newest record, which is the last; in place of a measurement the newest one of the chip ``home``."""
    *_, newest = records
    if newest.measurement is None:
        return newest
    return next((each for each in reversed(records) if each.environment.device_uuid == home), newest)


def _of_problem(
    tree: Tree,
    gpu: str,
    shape_key: str,
    found: Iterable[list[tuple[Iteration, Record]]],
    blank: list[BoardRow],
    wrong: Outcomes,
) -> list[Board]:
    """A problem's boards, the newest first; ``blank`` rows are at the end of the first."""
    alike = (part for group in found for part in _by_libraries(group))
    groups = sorted(alike, key=lambda group: max(record.recorded_at for _, record in group), reverse=True)
    if not groups:
        return [Board(gpu, shape_key, None, None, "", None, None, tuple(blank))]
    return [
        board
        for position, group in enumerate(groups)
        for board in _boards(tree, gpu, shape_key, group, [] if position else blank, wrong)
    ]


def _narrowed(board: Board, names: set[tuple[str, str, str]]) -> Board:
    return replace(board, rows=tuple(row for row in board.rows if row.key in names))


def leading(tree: Tree, gpu: str, selection: Selection) -> list[Iteration]:
    """The best kernel of each problem in its newest environment; library calls are left out."""
    first: dict[str, tuple[str, str, str]] = {}
    for row in (row for board in boards(tree, gpu, selection)[0] for row in board.rows):
        if row.rank is not None and not row.is_baseline:
            first.setdefault(row.problem, row.key)
    return [each for each in tree.scan(gpu, selection)[0] if first.get(each.shape_key) == each.key]


def latest(records: Iterable[Record]) -> dict[tuple[str, ...], Record]:
    """The newest outcome of each rank key, by the order in the file, since clocks jump.

    A later verification or a fault of the machine does not hide a measurement of the same source. Nor does a single
    rejection that the next run tries again.
    """
    found: dict[tuple[str, ...], Record] = {}
    tried: set[tuple[str, ...]] = set()
    for record in records:
        key = record.environment.rank_key
        held = found.get(key)
        only_verified = record.status is Status.PASSED and record.stage is Stage.VERIFY
        fault = record.cause is Cause.REFEREE
        in_doubt = not fault and key not in tried and is_retried(record.cause, gpus.find(record.gpu))
        repeats = (
            held is not None
            and record.source_sha256 == held.source_sha256
            and (fault or (held.measurement is not None and (only_verified or in_doubt)))
        )
        if not fault:  # as if it had not been tried
            (tried.add if in_doubt else tried.discard)(key)
        if not repeats:
            found[key] = record
    return found


def _by_libraries(group: list[tuple[Iteration, Record]]) -> Iterator[list[tuple[Iteration, Record]]]:
    """Split a group where records are known to have loaded different libraries.

    A record that does not say what it loaded stays with the newest.
    """
    while group:
        alike: list[Record] = []
        for record in _newest_first(group):
            if all(record.environment.loads_alike(each.environment) for each in alike):
                alike.append(record)
        taken = {id(record) for record in alike}
        yield [entry for entry in group if id(entry[1]) in taken]
        group = [entry for entry in group if id(entry[1]) not in taken]


def _newest_first(group: list[tuple[Iteration, Record]]) -> list[Record]:
    return sorted((record for _, record in group), key=lambda record: record.recorded_at, reverse=True)


def _by_folder(iterations: list[Iteration]) -> dict[tuple[str, str], list[Iteration]]:
    folders: dict[tuple[str, str], list[Iteration]] = {}
    for iteration in iterations:
        folders.setdefault((iteration.shape_key, iteration.model), []).append(iteration)
    return folders


def _boards(
    tree: Tree,
    gpu: str,
    shape_key: str,
    group: list[tuple[Iteration, Record]],
    blank: list[BoardRow],
    wrong: Outcomes,
) -> list[Board]:
    """One board per timer, the newest first; failures and unmeasured iterations are at its end."""
    rows = _decided(
        (iteration.number, _refuted(tree, _row(tree, iteration, record), wrong)) for iteration, record in group
    )
    newest_first = _newest_first(group)
    passed = (record for record in newest_first if record.status is Status.PASSED)
    timers: list[str | None] = [
        *dict.fromkeys(record.measurement.timer for record in passed if record.measurement)
    ] or [None]
    failures = [row for row in rows if row.timer is None or row.status != Status.PASSED]
    judges = dict.fromkeys(record.environment.judge_sha256 for record in newest_first)
    result = []
    for position, timer in enumerate(timers):
        ordered = ranked([row for row in rows if timer and row.timer == timer and row.status == Status.PASSED], judges)
        below = [*failures, *blank] if position == 0 else []
        record = next((each for each in newest_first if each.measurement and each.measurement.timer == timer), None)
        measured = record.measurement if record else None
        environment = (record or group[0][1]).environment
        problem, models = group[0][0].problem, sorted({iteration.model for iteration, _ in group})
        copy_gbs = copy_bandwidth.newest_gbs(tree, gpus.find(gpu), problem, models, environment.rank_key)
        if copy_gbs:
            ordered = [msgspec.structs.replace(row, of_copy=(row.gbs or 0) / copy_gbs) for row in ordered]
        result.append(
            Board(
                gpu=gpu,
                problem=shape_key,
                environment=environment,
                timer=timer,
                baseline=measured.baseline if measured else "",
                baseline_rate=throughput(problem, gpus.find(gpu), measured.baseline_ms) if measured else None,
                copy_gbs=copy_gbs,
                rows=(*ordered, *below),
            )
        )
    return result


def _kept(board: Board) -> Board:
    """KEEP the rows of the first rank too, whatever their ladders held before them."""
    return board.each(lambda row: msgspec.structs.replace(row, decision=KEEP) if row.rank == 1 else row)


def _with_opponents(
    tree: Tree, board: Board, members: Iterable[Opponent], pairs: list[PairRecord], complaints: list[str]
) -> Board:
    """Add the opponents measured in the board's environment, and what its rows reached against the strongest."""
    if board.environment is None:
        return board
    records = _read(tree.opponents(board.gpu, board.problem), Record, complaints)
    problem, gpu = parse_shape_key(board.problem), gpus.find(board.gpu)
    found = []
    for opponent in members:
        of_it = _repeated(tree, [record for record in records if record.iteration == opponent.name])
        repeated = of_it.get(board.environment.rank_key)
        record = _of_chip(board.home, repeated) if repeated else None
        if record is not None and (record.measurement is None or record.measurement.timer == board.timer):
            found.append(_row(tree, opponent.entry(problem, gpu), record))
    found.sort(key=lambda row: (row.status != Status.PASSED, -(row.ratio or 0)))
    board = replace(board, opponents=tuple(found))
    if board.best_opponent is None:
        return board
    best = board.best_opponent.iteration
    return board.each(lambda row: _against(tree, row, best, pairs))


def _against(tree: Tree, row: BoardRow, best: str, pairs: list[PairRecord]) -> BoardRow:
    """Add the newest pair of the row's code, judge and environment with the strongest opponent."""
    for held in reversed(pairs):
        same = (held.model, held.iteration, held.opponent) == (row.model, row.iteration, best)
        measured = held.measurement
        if not same or measured is None or row.environment is None or row.timer is None:
            continue
        if held.applies(row.environment, row.timer) and _same_code(tree, row, held):
            return _beside(row, best, measured)
    return row


def _beside(row: BoardRow, best: str, measured: Measurement | SustainedMeasurement, regime: str = "") -> BoardRow:
    """The row with its figures against the strongest opponent; ``regime`` begins the names of their fields."""
    figures = {f"vs_best{end}": getattr(measured, f"ratio{end}") for end in ("", "_low", "_high")}
    named = {"best_opponent": best, **figures}
    return msgspec.structs.replace(row, **{f"{regime}{name}": figure for name, figure in named.items()})


def _add_wrong(records: Iterable[Outcome], found: Outcomes) -> None:
    """Add those that were rejected for a wrong result to ``found``."""
    for record in records:
        if record.cause is Cause.WRONG_RESULT:
            found.setdefault(record.key, []).append(record)


def _refuted(tree: Tree, row: BoardRow, found: Outcomes) -> BoardRow:
    """The row, rejected where another run of the same code found its result wrong, by this judge."""
    if row.status != Status.PASSED:
        return row
    said = [each.reason for each in found.get(row.key, ()) if _same_code(tree, row, each)]
    if not said:
        return row
    reason = f"wrong in {counted(len(said), 'other run')} of the same code: {said[-1]}"
    return msgspec.structs.replace(row, status=Status.REJECTED.value, reason=reason)


def _bounds(
    tree: Tree, ladder: list[Iteration], profiles: list[ProfileRecord]
) -> Iterator[tuple[tuple[str, str, str], str]]:
    """The bound of each iteration that has a profile of its present source and families."""
    for iteration in ladder if profiles else ():
        found = newest_profile(profiles, iteration.name, *tree.hashes(iteration))
        if found is not None and found.bound is not None:
            yield iteration.key, found.bound.value


def _with_bounds(board: Board, bounds: dict[tuple[str, str, str], str]) -> Board:
    """Add the bounds, except to rows with figures of another source."""
    return board.each(lambda row: row if row.edited else msgspec.structs.replace(row, bound=bounds.get(row.key)))


def _add_sustained(records: list[SustainedRecord], found: SustainedRecords) -> None:
    """Add the measurements of a ladder, newest first, to ``found``."""
    for record in reversed(records):
        if record.measurement is not None:
            found.setdefault(record.key, []).append(record)


def _with_sustained(tree: Tree, board: Board, found: SustainedRecords) -> Board:
    """Add the newest figures at the power limit that have the code, the judge and the environment of a row."""

    def newest(row: BoardRow, opponent: str | None) -> SustainedRecord | None:
        held = found.get(row.key, ())
        record = next((each for each in held if each.opponent == opponent and _same_code(tree, row, each)), None)
        return record if record is not None and record.measurement is not None and record.measurement.counts else None

    def alone(row: BoardRow) -> BoardRow:
        record = newest(row, None)
        if record is None or record.measurement is None:
            return row
        bound = Bound.POWER.value if record.measurement.at_limit else row.bound
        figures = sustained_figures(record.measurement)
        return msgspec.structs.replace(row, sustained_record=record.id, bound=bound, **figures)

    board = replace(board.each(alone), opponents=tuple(map(alone, board.opponents)))
    best = board.sustained_best_opponent
    if best is None:
        return board

    def against(row: BoardRow) -> BoardRow:
        record = newest(row, best.iteration)
        measured = record.measurement if record is not None else None
        return _beside(row, best.iteration, measured, "sustained_") if measured is not None else row

    return board.each(against)


def _of_ceiling(board: Board, ceilings: list[CeilingRecord]) -> Board:
    """Add the share of the chip's power ceiling, where both were measured."""
    found = board.environment and ceiling_of(ceilings, parse_shape_key(board.problem).input, board.environment)
    if not found:
        return board

    def share(row: BoardRow) -> BoardRow:
        if row.sustained_tflops is None:
            return row
        share = row.sustained_tflops / found.tflops
        return msgspec.structs.replace(row, of_ceiling=share, ceiling_pj_per_flop=found.pj_per_flop)

    return board.each(share)


def _same_code(tree: Tree, row: BoardRow, record: Outcome) -> bool:
    """Whether a record has the code of a row, and its judge and environment."""
    if row.environment is None:
        return False
    ours, theirs = ((each.rank_key, each.judge_sha256) for each in (row.environment, record.environment))
    return ours == theirs and same_code(tree, row, record, record.environment.tilelang)


def sustained_figures(found: SustainedMeasurement) -> dict[str, Any]:
    """The figures at the power limit by the names of a row's fields."""
    side = found.contestant
    return {
        "sustained_ratio": found.ratio,
        "sustained_ratio_low": found.ratio_low,
        "sustained_ratio_high": found.ratio_high,
        "sustained_tflops": side.tflops,
        "sustained_sm_mhz": side.sm_clock_mhz,
        "sustained_power_w": side.power_w,
        "joules_per_launch": side.joules_per_launch,
        "pj_per_flop": side.pj_per_flop,
        "sustained_at_limit": found.at_limit,
    }


def _decided(rows: Iterable[tuple[int, BoardRow]]) -> list[BoardRow]:
    """KEEP a row if its interval is above that of its model's best so far; each comes with its number."""
    best: dict[tuple[str, str | None], float] = {}
    decided = []
    for _, row in sorted(rows, key=lambda each: (each[1].model, each[0])):
        held = best.get((row.model, row.timer), 0.0)
        keeps = row.status == Status.PASSED and row.ratio_low is not None and row.ratio_low > held
        if keeps and row.ratio_high is not None:
            best[row.model, row.timer] = row.ratio_high
        decided.append(msgspec.structs.replace(row, decision=KEEP if keeps else DISCARD))
    return decided


def _row(tree: Tree, iteration: Iteration, record: Record | None) -> BoardRow:
    measured, build = (record.measurement, builds.evidence(tree, record)) if record else (None, None)
    trials, kernel = record.verification if record else (), main_kernel(build)
    return BoardRow(
        gpu=iteration.gpu,
        problem=iteration.shape_key,
        iteration=iteration.name,
        model=iteration.model,
        status=record.status.value if record else NOT_MEASURED,
        rank=None,
        gbs=bandwidth_gbs(iteration.problem, measured.time_ms) if measured else None,
        max_abs_err=worst_error(trials),
        rel_err=worst_error(trials, "rel_err"),
        stale=_stale(tree, iteration, record) if record else (),
        decision=None,
        bound=None,
        registers=kernel.registers if kernel else None,
        spill_bytes=kernel.spill_bytes if kernel else None,
        warnings=build.warnings if build else None,
        source_sha256=record.source_sha256 if record else source_sha256(iteration.path),
        families_sha256=record.families_sha256 if record else None,
        record=record.id if record else None,
        kind=(record and record.kind) or RowKind.ITERATION,
        sm_clock_mhz=measured.telemetry.sm_clock_mhz if measured and measured.telemetry else None,
        **{name: getattr(measured, name, None) for name in _OF_MEASUREMENT},
        **{name: getattr(record, name, None) for name in _OF_RECORD},
    )


def _stale(tree: Tree, iteration: Iteration, record: Record) -> tuple[str, ...]:
    """What has changed since the record was made: source, family, judge."""
    judge = judge_sha256(tree.root, iteration.problem.operator, gpus.find(iteration.gpu))
    now = (*tree.hashes(iteration), judge)
    then = (record.source_sha256, record.families_sha256, record.environment.judge_sha256)
    changed = tuple(name for name, ours, its in zip(CHANGES, now, then, strict=True) if ours != its)
    if FAMILY not in changed:
        return changed
    path = tree.same_code(iteration.gpu, iteration.shape_key, iteration.model)
    code = alike(path, record.source_sha256, record.families_sha256, record.environment.tilelang)
    return tuple(name for name in changed if name != FAMILY or now[1] not in code)
