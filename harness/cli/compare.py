"""Verbs that look back at records: compare, reproduce, export."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from harness import comparison, exports, gpus, reproduction, revisions, tables
from harness.cli.app import app, emit
from harness.cli.options import Choice
from harness.comparison import Comparison, Verdict
from harness.errors import ExitCode, UsageError
from harness.progress import console
from harness.records import Record
from harness.tree import Selection, Tree


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
    tree, key = Tree.here(), choice.key
    choice.selection.check()
    before, after = (_taken(tree, key, named, choice.selection) for named in (a, b))
    found = comparison.pair(before, after, margin)
    if not found:
        raise UsageError(f"neither {a} nor {b} holds a record of {key} that matches {tables.chosen(choice.selection)}")
    if choice.json:
        emit(found)
    else:
        print(tables.comparisons(found, format))
    return ExitCode.REJECTED if any(_fails(each, *limit) for each in found if limit) else ExitCode.PASSED


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


@app.command
def export(
    choice: Choice = Choice(),
    *,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="A file; stdout where not given, but for Parquet.")
    ] = None,
    format: Annotated[str | None, Parameter(help="csv, json or parquet; else by the file's name, else csv.")] = None,
) -> ExitCode:
    """Write every record as one row, with units in the names of the columns (docs/export.md)."""
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
