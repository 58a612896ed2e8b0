"""The verb publish: the winners of a GPU's leaderboard, as data from which kernels/ takes its kernels."""

from typing import Annotated

import msgspec
from cyclopts import Parameter

from harness.boards.publication import publication
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.options import Json
from harness.cli.reply import Reply, reported
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.machine.table import paragraph
from harness.records import published


class PublishData(msgspec.Struct, frozen=True):
    """``current``: whether the file holds what the leaderboard gives now."""

    path: str
    current: bool
    publication: published.Publication


def publish(
    *,
    gpu: Annotated[str, Parameter(help="GPU key, such as h200.")],
    check: Annotated[
        bool, Parameter(negative="", help="Write nothing; exit with 1 where the file is out of date.")
    ] = False,
    json: Json = False,
) -> Reply[PublishData]:
    """Write the winners of a GPU's leaderboard to kernels/pinned/; measures nothing."""
    if gpus.find(gpu, auto=False).is_cpu:
        raise UsageError("what a CPU measured holds for that machine alone and is not published; name a GPU key")
    tree = Tree.here()
    path = published.place(tree.root, gpu)
    name = tree.short(path)
    try:
        before = published.read(path) if path.is_file() else published.Publication(gpu)
    except InfrastructureError as error:
        raise InfrastructureError(f"{error}; restore it: git checkout -- {name}, or remove it") from None
    made, complaints = publication(tree, gpu, before)
    problems = reported(complaints)
    if not made.winners and not made.library:
        raise UsageError(f"no row of tuning/{gpu}/ is current, so there is nothing to publish; bench on that GPU first")
    wanted = published.encode(made)
    current = path.is_file() and path.read_bytes() == wanted
    if not check and not current:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wanted)
        current = True
    text = f"{name}: {len(made.winners)} winners, {len(made.library)} problems for the library"
    if made.sustained:
        text += f"\n{len(made.sustained)} other leads at the power limit: {', '.join(made.sustained)}"
    if not current:
        text = f"{name} is not what the leaderboard gives; write it anew: tilebench publish --gpu {gpu}"
    code = ExitCode.PASSED if current else ExitCode.REJECTED
    return Reply(PublishData(name, current, made), lambda: "\n".join(map(paragraph, text.splitlines())), code, problems)
