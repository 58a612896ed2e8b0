"""The verb gather: notebooks of other machines, merged into this one."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from harness.catalog.tree import Tree
from harness.cli.options import Json
from harness.cli.reply import Reply, reported
from harness.errors import UsageError
from harness.runs import gathering
from harness.runs.gathering import Gathered


def gather(
    *folders: Annotated[Path, Parameter(help="Folders tuning/<gpu>, or what holds them: tuning, a checkout.")],
    json: Json = False,
) -> Reply[list[Gathered]]:
    """Merge notebooks into this one: iterations and records that it lacks; measures nothing."""
    if not folders:
        raise UsageError("gather needs the folders to merge, such as ../elsewhere/tuning/h200")
    found, complaints = gathering.gather(Tree.here(), folders)
    lines = [
        f"{each.gpu}: {each.iterations} iterations and {each.records} records added, {each.known} known before"
        for each in found
    ]
    return Reply(found, lambda: "\n".join(lines), problems=reported(complaints))
