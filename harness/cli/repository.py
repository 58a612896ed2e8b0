"""Verbs of a repository of one's own: init, new-operator."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from harness.authoring import repository
from harness.catalog.tree import Tree
from harness.cli.options import Json
from harness.cli.reply import Reply
from harness.errors import UsageError
from harness.machine import hints
from harness.machine.table import paragraph


class InitData(msgspec.Struct, frozen=True):
    """The repository, and what was written into it."""

    path: str
    written: tuple[str, ...]


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
    return Reply(InitData(str(root), written), lambda: paragraph(told, "  "))


class NewOperatorData(msgspec.Struct, frozen=True):
    """Where the operator and its baseline lie."""

    operator: str
    baseline: str


def new_operator(
    name: Annotated[str, Parameter(help="Its name in shape keys, such as rmsnorm.")], *, json: Json = False
) -> Reply[NewOperatorData]:
    """Write an operator, in which an example answers each question, and its baseline, both to edit."""
    tree = Tree.here()
    paths = operator, baseline = repository.new_operator(tree.root, name)
    then = f"{hints.program()} new --shape {name}_f32fp32_64x256 …"
    told = f"{' and '.join(map(tree.short, paths))}: edit both; then, {then}"
    return Reply(NewOperatorData(str(operator), str(baseline)), lambda: paragraph(told, "  "))
