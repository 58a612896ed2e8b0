"""The verb for trees that were not made here: audit."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from tabulate import tabulate

from harness.cli.app import app, emit
from harness.errors import ExitCode, UsageError, printable
from harness.foreign.audit import audit as carry_out
from harness.foreign.audit import summary


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
