"""The verbs for trees that were not made here: audit reads them, foreign benches them."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from tabulate import tabulate

from harness.boards.tables import check_format
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.app import app, emit
from harness.cli.options import Choice, Manner, check_seconds
from harness.errors import ExitCode, UsageError, printable
from harness.extras.foreign import board
from harness.extras.foreign.audit import audit as carry_out
from harness.extras.foreign.audit import summary
from harness.extras.foreign.bench import ForeignPlan, bench
from harness.machine.progress import console
from harness.records.base import Cause, Status


@app.command
def audit(
    tree: Annotated[Path, Parameter(help="A folder with srcs/<shape_key>/<model>/ somewhere below it.")],
    /,
    *,
    json: Annotated[bool, Parameter(negative="", help="One JSON document on stdout, all else on stderr.")] = False,
) -> ExitCode:
    """Say what a tree of tuning scripts gets wrong, by reading its sources and its results; runs nothing."""
    if not tree.is_dir():
        raise UsageError(f"{tree} is not a folder")
    findings = carry_out(tree)
    if json:
        emit(findings)
    elif findings:
        for finding in findings:
            print(printable(str(finding)))
        headers = ("what", "findings", "files", "why it matters")
        print(f"\n{tabulate(summary(findings), headers=headers)}")
    else:
        print("nothing found")
    return ExitCode.REJECTED if findings else ExitCode.PASSED


@app.command
def foreign(
    tree: Annotated[Path, Parameter(help="A folder with srcs/<shape_key>/<model>/iter<NNN>*.py somewhere below it.")],
    /,
    choice: Choice = Choice(),
    manner: Manner = Manner(),
    *,
    script_deadline: Annotated[float, Parameter(help="Seconds for a script that is run by itself at most.")] = 300.0,
    format: Annotated[str, Parameter(help="A tabulate format.")] = "simple",
) -> ExitCode:
    """Judge the kernels of a tree of scripts that were made elsewhere; what has none to be found is self-reported."""
    if not tree.is_dir():
        raise UsageError(f"{tree} is not a folder")
    check_format(format)
    check_seconds("script-deadline", script_deadline)
    gpu, device = gpus.resolve(choice.gpu, force=manner.force)
    found = bench(
        ForeignPlan(
            tree=Tree.here(),
            foreign=tree.resolve(),
            gpu=gpu,
            device=device,
            selection=choice.selection,
            settings=manner.settings(gpu),
            deadline_s=script_deadline,
            again=manner.again,
        )
    )
    boards = board.boards(found.records)
    if choice.json:
        emit(boards)
    else:
        print("\n".join(board.table(each, format) for each in boards))
    if found.reused:
        console.print(f"{found.reused} of {len(found.records)} were recorded before", markup=False)
    records = [record for _, record in found.records]
    if any(record.cause is Cause.REFEREE for record in records):
        return ExitCode.INFRASTRUCTURE
    return ExitCode.PASSED if all(record.status is Status.PASSED for record in records) else ExitCode.REJECTED
