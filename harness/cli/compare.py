"""Verbs that look back at records: compare, reproduce, play-off, export."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from harness.boards import comparison, exports, leaderboard, play_off, reproduction, revisions, tables
from harness.boards.comparison import Comparison, Verdict
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Selection, Tree
from harness.cli.app import app, emit
from harness.cli.options import Choice, Manner, check_least
from harness.errors import ExitCode, UsageError
from harness.machine.progress import console, reporting
from harness.records.results import Record
from harness.records.store import append


@app.command
def compare(
    a: Annotated[str, Parameter(help="Before: a git revision, a file or folder of records, last, or previous.")],
    b: Annotated[str, Parameter(help="After: as A.")] = revisions.LAST,
    /,
    *,
    choice: Choice = Choice(),
    fail_on: Annotated[str | None, Parameter(help="Exit with 1 for this verdict, as slower or slower:1%.")] = None,
    margin: Annotated[float, Parameter(help="Kernels closer than this are the same; relative.")] = comparison.MARGIN,
    format: Annotated[str, Parameter(help="A tabulate format; github is ready for a pull request.")] = "simple",
) -> ExitCode:
    """Say for each iteration whether it became faster or slower between two runs; measures nothing."""
    limit = _limit(fail_on)
    if not 0 <= margin < 1:
        raise UsageError(f"--margin {margin:g} is not a number from 0 up to 1")
    tree, key = Tree.here(), choice.key
    choice.selection.check()
    before, after = (_taken(tree, key, named, choice.selection) for named in (a, b))
    if not (before and after):
        words = tables.narrowing(choice.selection)
        who = f"{b} holds no" if before else f"{a} holds no" if after else f"neither {a} nor {b} holds a"
        raise UsageError(f"{who} record of {key}{f' that matches {words}' if words else ''}")
    found = comparison.pair(before, after, margin)
    if choice.json:
        emit(found)
    else:
        print(tables.comparisons(found, format))
    if limit is None:
        return ExitCode.PASSED
    if all(each.verdict is Verdict.INCOMPARABLE for each in found):
        console.print(f"tilebench: --fail-on {fail_on}: no two records could be compared", markup=False)
        return ExitCode.REJECTED
    return ExitCode.REJECTED if any(_fails(each, *limit) for each in found) else ExitCode.PASSED


@app.command
def reproduce(
    record: Annotated[str, Parameter(help="A record's short id or its beginning, or a file of records: its last.")],
    /,
    *,
    in_image: Annotated[bool, Parameter(negative="", help="Measure in the container's image that it names.")] = False,
    json: Annotated[bool, Parameter(negative="", help="One JSON document on stdout, all else on stderr.")] = False,
) -> ExitCode:
    """Measure an iteration once more as it was recorded, and say whether the two agree."""
    tree = Tree.here()
    original = reproduction.find_record(tree, record)
    gpus.resolve(original.gpu)  # before anything is checked out
    measured = original.measurement
    assert measured is not None
    console.print(
        f"record {original.id}: {original.shape_key} {original.model} {original.iteration}, ratio {measured.ratio:.4f} "
        f"[{measured.ratio_low:.4f}, {measured.ratio_high:.4f}]",
        markup=False,
    )
    with reproduction.as_recorded(tree, original) as found:
        console.print(f"its code is that of {found.source}", markup=False)
        verdict = reproduction.judge(found, reproduction.again(found, in_image=in_image))
    kept = reproduction.keep(tree, verdict)
    if json:
        emit(verdict)
    else:
        for each in verdict.differences or ("nothing",):
            print(f"differs: {each}")
        print(f"{reproduction.line(verdict)}  ({tree.short(kept)})")
    return ExitCode.PASSED if verdict.agrees else ExitCode.REJECTED


@app.command(name="play-off")
def play(
    choice: Choice = Choice(),
    *,
    rounds: Annotated[int, Parameter(help="How often each leader is measured.")] = play_off.ROUNDS,
    top: Annotated[int | None, Parameter(help="The first so many rows; else those that share the first rank.")] = None,
    budget: Annotated[float, Parameter(help="Seconds of device time for one measurement at most.")] = 1.0,
) -> ExitCode:
    """Measure the leaders of a problem in turns; the leaderboard takes the verdict."""
    if choice.shape is None:
        raise UsageError("play-off needs --shape, e.g. --shape matmul_bf16fp32_4096x4096x4096")
    for name, number in (("rounds", rounds), ("top", top)):
        if number is not None:
            check_least(name, number, 2)
    tree = Tree.here()
    gpu, device = gpus.resolve(choice.gpu)
    settings = Manner(budget=budget).settings(gpu)
    leaders = _leaders(tree, gpu.key, choice.selection, top)
    with reporting(rounds) as reporter:
        held = play_off.hold(tree, gpu, device, leaders, rounds, settings, reporter)
    append(tree.play_offs(gpu.key, choice.shape), held)
    if choice.json:
        emit(held)
    else:
        print(tables.standings(held))
    return ExitCode.PASSED


def _leaders(tree: Tree, key: str, selection: Selection, top: int | None) -> list[Iteration]:
    """Whom the newest board of a problem puts first, but for those that have changed since."""
    boards, _ = leaderboard.boards(tree, key, selection)
    ranked = [row for row in boards[0].rows if row.rank is not None] if boards else []
    rows = ranked[:top] if top else [row for row in ranked if row.rank == 1 or row.behind is not None]
    names = {(row.model, row.iteration) for row in rows if not {"source", "family"} & set(row.stale)}
    iterations, _ = tree.scan(key, selection)
    return [each for each in iterations if (each.model, each.name) in names]


@app.command
def export(
    choice: Choice = Choice(),
    *,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="A file; stdout where not given, but for Parquet.")
    ] = None,
    format: Annotated[str | None, Parameter(help="csv, json or parquet; else by the file's name, else csv.")] = None,
) -> ExitCode:
    """Write every record as one row, with units in the names of the columns (docs/reference/export.md)."""
    tree, key = Tree.here(), choice.key
    choice.selection.check()
    rows = exports.rows(_taken(tree, key, str(tree.folder(key) / "logs"), choice.selection))
    exports.write(rows, exports.chosen(format, output), output)
    if output is not None:
        console.print(f"{len(rows)} records in {output}", markup=False)
    return ExitCode.PASSED


def _taken(tree: Tree, key: str, named: str, selection: Selection) -> list[Record]:
    found, problems = revisions.records(tree, key, named)
    for problem in problems:
        console.print(problem, markup=False)
    return [record for record in found if record.gpu == key and selection.takes_record(record)]


def _limit(fail_on: str | None) -> tuple[Verdict, float] | None:
    """A verdict, and from how much on it counts."""
    if fail_on is None:
        return None
    word, _, size = fail_on.partition(":")
    try:
        verdict = Verdict(word)
        least = float(size.removesuffix("%")) / 100 if size else 0.0
    except ValueError:
        raise UsageError(f"--fail-on '{fail_on}' is not a verdict and a size, such as slower:1%") from None
    if verdict not in (Verdict.FASTER, Verdict.SLOWER) or not 0 <= least < 1:
        raise UsageError(f"--fail-on '{fail_on}': it takes faster or slower, and a size from 0% up to 100%")
    return verdict, least


def _fails(found: Comparison, verdict: Verdict, least: float) -> bool:
    """Whether the verdict is given, and by at least that much for sure: the near end of the interval counts."""
    if found.verdict is not verdict or found.low is None or found.high is None:
        return False
    return found.high <= 1 - least if verdict is Verdict.SLOWER else found.low >= 1 + least
