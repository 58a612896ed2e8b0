"""The verb report: all that is recorded of a GPU, as one HTML file."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from harness.catalog.tree import Tree
from harness.cli.app import app, emit
from harness.cli.options import Choice
from harness.errors import ExitCode
from harness.machine.progress import console


@app.command
def report(
    choice: Choice = Choice(),
    *,
    output: Annotated[Path | None, Parameter(help="The file; tuning/<gpu>/report.html where not given.")] = None,
    pictures: Annotated[
        Path | None, Parameter(help="A folder: draw the overview and the leading ladder there too, as SVG.")
    ] = None,
) -> ExitCode:
    """Write what is recorded as one HTML file that needs no network; measures nothing."""
    from harness.extras.report import page  # Vega's engine is large, and no other verb needs it
    from harness.extras.report.gather import gather
    from harness.extras.report.pictures import write as draw

    tree = Tree.here()
    gathered = gather(tree, choice.key, choice.selection)
    path = output or tree.root / "tuning" / choice.key / "report.html"
    size_bytes = page.write(gathered, path)
    drawn = draw(gathered, pictures) if pictures else []
    for complaint in gathered.complaints:
        console.print(complaint, markup=False)
    if choice.json:
        emit(
            {
                "path": path,
                "bytes": size_bytes,
                "problems": len(gathered.shapes),
                "iterations": len(gathered.newest),
                "complaints": gathered.complaints,
                "pictures": drawn,
            }
        )
    else:
        held = f"{len(gathered.shapes)} problems, {len(gathered.newest)} iterations"
        print("\n".join([f"{tree.short(path)}, {size_bytes / 1e6:.1f} MB: {held}", *map(str, drawn)]))
    return ExitCode.PASSED
