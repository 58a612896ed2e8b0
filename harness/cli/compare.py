"""Verbs that start from records: compare, reproduce, play-off, export."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from harness.boards import comparison, exports, leaderboard, play_off, reproduction, revisions, sustained, tables
from harness.boards.comparison import Change, Comparison, Judged
from harness.boards.play_off import AtLimit
from harness.boards.reproduction import Reproduction
from harness.boards.revisions import R
from harness.catalog import gpus
from harness.catalog.tree import OPPONENTS_MODEL, Iteration, Selection, Tree
from harness.cli import many
from harness.cli.options import (
    FleetOptions,
    Json,
    MeasureOptions,
    SelectionOptions,
    TableFormat,
)
from harness.cli.reply import Reply, reported
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.judge.facts.problem import parse_shape_key
from harness.judge.sustaining import SustainedSettings
from harness.machine.files import require_writable
from harness.machine.progress import console, reporting
from harness.machine.ranges import AT_LEAST_2, BELOW_1, POSITIVE
from harness.machine.table import bounded, paragraph
from harness.records.base import Regime
from harness.records.playoffs import PlayOff
from harness.records.results import Measurement, Record
from harness.records.store import append, read
from harness.records.sustained import SustainedRecord
from harness.runs.run import Plan


def compare(
    a: Annotated[
        str, Parameter(help="The records before: a revision, a file or folder of records, last, or previous.")
    ],
    b: Annotated[str, Parameter(help="The records after: like A.")] = revisions.LAST,
    /,
    *,
    chosen: SelectionOptions = SelectionOptions(),
    fail_on: Annotated[
        str | None, Parameter(help="Exit with 1 where an iteration has this verdict: slower, or slower:1%.")
    ] = None,
    margin: Annotated[
        float | None,
        BELOW_1,
        Parameter(help="Kernels closer than this are the same; 0.005, or 0.01 at the power limit."),
    ] = None,
    regime: Annotated[Regime, Parameter(help="Figures at equal clocks, or alone at the power limit.")] = Regime.PAIRED,
    format: TableFormat = "simple",
) -> Reply[list[Comparison]]:
    """Say for each iteration whether it became faster or slower between two runs; measures nothing."""
    limits = comparison.limits(fail_on, rf"(slower|faster){comparison.SIZE}", "slower:1% or faster:1%")
    kind: type[Record] | type[SustainedRecord] = Record if regime is Regime.PAIRED else SustainedRecord
    if margin is None:
        margin = comparison.MARGIN if kind is Record else comparison.MARGIN_AT_LIMIT
    tree, key = Tree.here(), chosen.key
    chosen.selection.check()
    (before, problems), (after, more) = (_of_key(tree, key, named, kind) for named in (a, b))
    said = reported(dict.fromkeys((*problems, *more)))
    shapes = chosen.selection.problems([*before, *after])
    before, after = (chosen.selection.taken(records, shapes) for records in (before, after))
    if not (before and after):
        words = tables.narrowing(chosen.selection)
        lack = f"{b} holds no" if before else f"{a} holds no" if after else f"neither {a} nor {b} holds a"
        raise UsageError(f"{lack} record of {key}{f' that matches {words}' if words else ''}")
    found = comparison.pair(before, after, margin)
    code = ExitCode.PASSED
    if limits:
        if all(each.verdict is Change.INCOMPARABLE for each in found):
            said += reported([f"tilebench: --fail-on {fail_on}: no two records could be compared"])
            code = ExitCode.REJECTED
        elif failing := [each for each in found if each.model != OPPONENTS_MODEL and _fails(each, limits)]:
            rows = ", ".join(f"{each.problem} {each.model} {each.iteration}" for each in failing)
            said += reported([f"tilebench: --fail-on {fail_on}: {rows}"])
            code = ExitCode.REJECTED
    return Reply(found, lambda: tables.comparisons(found, format), code, said)


def reproduce(
    record: Annotated[
        str, Parameter(help="A record's id or its beginning, or a file of records, for its last record.")
    ],
    /,
    *,
    in_image: Annotated[
        bool, Parameter(negative="", help="Measure in the container image that the record names.")
    ] = False,
    budget: Annotated[
        float | None, POSITIVE, Parameter(help="Seconds of device time; by default the record's.")
    ] = None,
    on: Annotated[
        Literal["here", "any"],
        Parameter(help="here, or on any GPU of the record's key in the Ray cluster at RAY_ADDRESS."),
    ] = "here",
    json: Json = False,
) -> Reply[Reproduction]:
    """Measure a recorded iteration again with its own code; the exit code is 1 unless both figures agree."""
    tree = Tree.here()
    original = reproduction.find_record(tree, record)
    if on == "any":
        return _elsewhere(tree, original, {"in_image": in_image or None, "budget": budget})
    gpus.resolve(original.gpu)  # before anything is checked out
    require_writable(reproduction.path_of(tree, original).parent)
    measured = original.measurement
    assert measured is not None
    name = f"{original.shape_key} {original.model} {original.iteration}"
    console.print(f"record {original.id}: {name}, ratio {bounded(measured)}", markup=False)
    with reproduction.as_recorded(tree, original) as found:
        console.print(f"its code comes from {found.source}", markup=False)
        verdict = reproduction.judge(found, *reproduction.again(found, in_image=in_image, budget_s=budget))
    return _reproduced(tree, verdict, reproduction.keep(tree, verdict))


def _elsewhere(tree: Tree, original: Judged, given: dict[str, object]) -> Reply[Reproduction]:
    """Measure it again on another GPU, with the code of the working tree there."""
    line = ("reproduce", original.id, *many.as_words(given))
    fleet, gpu, problem = FleetOptions(gpus="all"), gpus.find(original.gpu), parse_shape_key(original.shape_key)
    if many.run_errands(fleet, gpu, line, [problem]) is ExitCode.INFRASTRUCTURE:
        raise InfrastructureError(f"{original.iteration} of {original.shape_key} was measured on no GPU, as said above")
    path = reproduction.path_of(tree, original)
    verdicts = [each for each in read(path, Reproduction)[0] if each.original == original.id]
    return _reproduced(tree, verdicts[-1], path)


def _reproduced(tree: Tree, verdict: Reproduction, kept: Path) -> Reply[Reproduction]:
    lines = [f"changed since the record: {each}" for each in verdict.differences or ("nothing",)]
    lines.append(f"{reproduction.line(verdict)}  ({tree.short(kept)})")
    return Reply(
        verdict, lambda: "\n".join(map(paragraph, lines)), ExitCode.PASSED if verdict.agrees else ExitCode.REJECTED
    )


def play(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    rounds: Annotated[int, AT_LEAST_2, Parameter(help="How often each leader is measured.")] = play_off.ROUNDS,
    top: Annotated[
        int | None, AT_LEAST_2, Parameter(help="How many first rows take part; by default those that share rank 1.")
    ] = None,
    budget: Annotated[
        float | None,
        POSITIVE,
        Parameter(help="Seconds for one measurement; 1 of device time, or 15 at the power limit."),
    ] = None,
    regime: Annotated[Regime, Parameter(help="At equal clocks, or alone at the power limit.")] = Regime.PAIRED,
) -> Reply[PlayOff]:
    """Measure the leaders of a problem in turns; the leaderboard then shows their order."""
    if chosen.shape is None:
        raise UsageError(f"play-off needs --shape, e.g. --shape {chosen.example}")
    chosen.one_problem("play-off")
    tree = Tree.here()
    gpu, device = gpus.resolve(chosen.gpu)
    settings = MeasureOptions(budget=1.0 if budget is None else budget).settings(gpu)
    at_limit = None
    if regime is Regime.PAIRED:
        leaders = _leaders(tree, gpu.key, chosen.selection, top)
    else:
        sustained.require_limit(gpu, device, parse_shape_key(chosen.shape))
        paired = _leaders_at_limit(tree, gpu.key, chosen.selection, top)
        how = SustainedSettings() if budget is None else SustainedSettings(budget_s=budget)
        leaders, at_limit = list(paired), AtLimit(how, paired)
    plan = Plan(tree, gpu, device, tuple(leaders), settings)
    with reporting(rounds) as reporter:
        held = play_off.hold(plan, rounds, reporter, at_limit)
    append(tree.play_offs(gpu.key, chosen.shape), held)
    return Reply(held, lambda: tables.play_off(held))


def _leaders(tree: Tree, key: str, selection: Selection, top: int | None) -> list[Iteration]:
    """The first rows of a problem's newest board, without those that have changed since."""
    boards, _ = leaderboard.boards(tree, key, selection)
    ranked = [row for row in boards[0].rows if row.rank is not None] if boards else []
    rows = ranked[:top] if top else [row for row in ranked if row.rank == 1 or row.behind is not None]
    names = {row.key for row in rows if not row.edited}
    iterations, _ = tree.scan(key, selection)
    return [each for each in iterations if each.key in names]


def _leaders_at_limit(tree: Tree, key: str, selection: Selection, top: int | None) -> dict[Iteration, Measurement]:
    """The first rows at the power limit with their measurements at equal clocks; with ``top`` others may follow."""
    boards, _ = leaderboard.boards(tree, key, selection)
    if not boards or not boards[0].at_limit:
        raise UsageError(
            f"no iteration of {selection.shape} has a sustained figure; run bench --regime sustained first"
        )
    board = boards[0]
    others = [row for row in board.rows if row.rank is not None and row.sustained_rank is None]
    level = [row for row in board.at_limit if row.sustained_rank == 1 or row.sustained_behind is not None]
    rows = [*board.at_limit, *others][:top] if top else level
    fresh = [row for row in rows if not row.edited and not row.is_baseline]
    return dict(sustained.paired_of(tree, fresh))


class ExportData(msgspec.Struct, frozen=True):
    """How many records were written, and to which file; without a file ``rows`` holds them."""

    records: int
    path: str | None
    rows: tuple[dict[str, Any], ...] | None


def export(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="A file; by default stdout, but not for Parquet.")
    ] = None,
    format: Annotated[
        str | None, Parameter(help="csv, json or parquet; by default what the file's name says, else csv.")
    ] = None,
) -> Reply[ExportData]:
    """Write every record as one row with its place on the leaderboard, and with units in the names of the columns."""
    if chosen.json and output is None and format not in (None, "json"):
        raise UsageError(f"--json prints JSON; leave --json out, or name a file: --output records.{format}")
    tree, key = Tree.here(), chosen.key
    chosen.selection.check()
    if not (kept := tree.folder(key) / "logs").is_dir():
        raise UsageError(f"nothing under tuning/{key}/ is recorded yet, so there is nothing to export; bench first")
    form = exports.chosen(format, output)
    found, problems = _of_key(tree, key, str(kept), Record)
    said = reported(problems)
    records, unknown = exports.known(chosen.selection.taken(found))
    boards, problems = leaderboard.boards(tree, key, chosen.selection)
    problems = [*unknown, *(each for each in problems if each not in said)]
    rows = exports.rows(records, boards)
    enveloped = chosen.json and output is None
    if not enveloped:
        exports.write(rows, form, output)
    if output is not None:
        console.print(f"{len(records)} records in {output}", markup=False)
    data = ExportData(len(rows), None if output is None else str(output), tuple(rows) if enveloped else None)
    return Reply(data, lambda: "", problems=(*said, *reported(problems)))


def _of_key(tree: Tree, key: str, named: str, kind: type[R]) -> tuple[list[R], Sequence[str]]:
    """The records of a GPU key that a name stands for, and what could not be read."""
    found, problems = revisions.records(tree, key, named, kind)
    if problems and not found:
        raise UsageError(f"{named} holds no record of {key}: {problems[0]}")
    return [record for record in found if record.gpu == key], problems


def _fails(found: Comparison, limits: Mapping[str, float]) -> bool:
    least = limits.get(found.verdict)
    if least is None or found.low is None or found.high is None:
        return False
    return comparison.shows(found.low, found.high, least, slower=found.verdict is Change.SLOWER)
