"""The verb report: all that is recorded of a GPU, as one HTML file."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from harness.cli.app import app, emit
from harness.cli.options import Choice
from harness.errors import ExitCode
from harness.progress import console
from harness.tree import Tree


@app.command
def report(
    choice: Choice = Choice(),
    *,
    output: Annotated[Path | None, Parameter(help="The file; tuning/<gpu>/report.html where not given.")] = None,
) -> ExitCode:
    """Write what is recorded as one HTML file that needs no network; measures nothing."""
    from harness.report import page  # Vega's engine is large, and no other verb needs it
    from harness.report.gather import gather

    tree = Tree.here()
    gathered = gather(tree, choice.key, choice.selection)
    path = output or tree.root / "tuning" / choice.key / "report.html"
    size_bytes = page.write(gathered, path)
    for complaint in gathered.complaints:
        console.print(complaint, markup=False)
    if choice.json:
        emit(
            {
                "path": path,
                "bytes": size_bytes,
                "problems": len(gathered.shapes),
                "iterations": len(gathered.entries),
                "complaints": gathered.complaints,
            }
        )
    else:
        held = f"{len(gathered.shapes)} problems, {len(gathered.entries)} iterations"
        print(f"{tree.short(path)}, {size_bytes / 1e6:.1f} MB: {held}")
    return ExitCode.PASSED
