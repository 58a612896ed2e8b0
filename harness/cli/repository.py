"""Verbs of a repository of one's own: init."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from harness.authoring import repository
from harness.cli.app import app
from harness.cli.options import Json
from harness.cli.reply import Reply
from harness.errors import UsageError


class InitData(msgspec.Struct, frozen=True):
    """The repository, and what was written into it."""

    path: str
    written: tuple[str, ...]


@app.command
def init(
    folder: Annotated[Path, Parameter(help="The folder; it is made where it is missing.")] = Path(),
    *,
    json: Json = False,
) -> Reply[InitData]:
    """Make a repository for your own operators and kernels; what is there already stays as it is."""
    root = folder.absolute()
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file; name a folder")
    written = tuple(str(path.relative_to(root)) for path in repository.init(root))
    told = f"{root} is ready; written: {', '.join(written) or 'nothing, all was there'}"
    return Reply(InitData(str(root), written), lambda: told)
