"""The verb report: all records of a GPU as one HTML file."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from harness.catalog.tree import Tree
from harness.cli.options import SelectionOptions
from harness.cli.reply import Reply, reported


class ReportData(msgspec.Struct, frozen=True):
    """The page, its size in bytes, what is on it, and the pictures that were drawn."""

    path: str
    bytes: int
    problems: int
    iterations: int
    pictures: tuple[str, ...]


def report(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    output: Annotated[Path | None, Parameter(help="The file; by default tuning/<gpu>/report.html.")] = None,
    beside: Annotated[str | None, Parameter(help="Another GPU key; its leaders' ratios stand beside these.")] = None,
    pictures: Annotated[
        Path | None, Parameter(help="A folder for the overview and the leading ladder as SVG files.")
    ] = None,
) -> Reply[ReportData]:
    """Write all records as one HTML file that needs no network; measures nothing."""
    from harness.extras.report import page  # Vega's engine is large, and no other verb needs it
    from harness.extras.report.gather import gather
    from harness.extras.report.pictures import write as draw

    tree = Tree.here()
    gathered = gather(tree, chosen.key, chosen.selection, beside)
    path = output or tree.root / "tuning" / chosen.key / "report.html"
    size_bytes = page.write(gathered, path)
    drawn = tuple(map(str, draw(gathered, pictures) if pictures else ()))
    data = ReportData(str(path), size_bytes, len(gathered.shapes), len(gathered.newest), drawn)
    head = f"{tree.short(path)}, {size_bytes / 1e6:.1f} MB: {data.problems} problems, {data.iterations} iterations"
    return Reply(data, lambda: "\n".join((head, *drawn)), problems=reported(gathered.complaints))
