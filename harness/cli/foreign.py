"""Verbs for trees of scripts from elsewhere: audit reads them, foreign measures them."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.app import app
from harness.cli.options import Json, MeasureOptions, SelectionOptions, TableFormat, check_seconds
from harness.cli.reply import Reply
from harness.errors import ExitCode, UsageError
from harness.extras.foreign import board
from harness.extras.foreign.audit import audit as carry_out
from harness.extras.foreign.bench import ForeignPlan, bench
from harness.extras.foreign.board import ForeignBoard
from harness.extras.foreign.finding import SHOWN, AuditFinding, text
from harness.judge.facts.problem import parse_shape_key
from harness.machine.progress import console
from harness.machine.table import check_format
from harness.records.base import Cause, Status


@app.command
def audit(
    *paths: Annotated[Path, Parameter(help="Scripts, or folders with scripts and their figures.")],
    shape: Annotated[str | None, Parameter(help="The problem of scripts outside srcs/<shape_key>/.")] = None,
    all: Annotated[bool, Parameter(negative="", help="Show every finding, not the first ten of each kind.")] = False,
    json: Json = False,
) -> Reply[list[AuditFinding]]:
    """Read tuning scripts and their results, and say what is wrong with them; runs nothing."""
    for path in paths or (Path(),):
        if not path.exists():
            raise UsageError(f"{path} is neither a file nor a folder")
    findings = carry_out(paths or (Path(),), parse_shape_key(shape) if shape else None)
    return Reply(
        findings,
        lambda: text(findings, most=None if all else SHOWN) if findings else "nothing found",
        ExitCode.REJECTED if findings else ExitCode.PASSED,
    )


@app.command
def foreign(
    tree: Annotated[Path, Parameter(help="A folder with srcs/<shape_key>/<model>/iter<NNN>*.py somewhere below it.")],
    /,
    chosen: SelectionOptions = SelectionOptions(),
    how: MeasureOptions = MeasureOptions(),
    *,
    script_deadline: Annotated[float, Parameter(help="Seconds for a script that runs by itself.")] = 300.0,
    format: TableFormat = "simple",
) -> Reply[list[ForeignBoard]]:
    """Judge the kernels in a tree of scripts; a script in which no kernel is found is run, and self-reported."""
    if not tree.is_dir():
        raise UsageError(f"{tree} is not a folder")
    check_format(format)
    check_seconds("script-deadline", script_deadline)
    gpu, device = gpus.resolve(chosen.gpu, force=how.force)
    found = bench(
        ForeignPlan(
            tree=Tree.here(),
            foreign=tree.resolve(),
            gpu=gpu,
            device=device,
            selection=chosen.selection,
            settings=how.settings(gpu),
            deadline_s=script_deadline,
            again=how.again,
        )
    )
    boards = board.boards(found.records)
    if found.reused:
        console.print(f"{found.reused} of {len(found.records)} were recorded before", markup=False)
    records = [record for _, record in found.records]
    code = ExitCode.PASSED if all(record.status is Status.PASSED for record in records) else ExitCode.REJECTED
    if any(record.cause is Cause.REFEREE for record in records):
        code = ExitCode.INFRASTRUCTURE
    return Reply(boards, lambda: "\n".join(board.table(each, format) for each in boards), code)
