"""The verb publish: the leaders of a GPU's leaderboard, as data that the front of kernels/ takes its kernels from."""

from typing import Annotated

from cyclopts import Parameter

from harness.boards.publication import publication
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.app import app, emit
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.machine.progress import console
from harness.records import published


@app.command
def publish(
    *,
    gpu: Annotated[str, Parameter(help="GPU key, such as h200.")],
    check: Annotated[
        bool, Parameter(negative="", help="Write nothing; exit code 1 if the file is not what would be written.")
    ] = False,
    json: Annotated[bool, Parameter(negative="", help="One JSON document on stdout, all else on stderr.")] = False,
) -> ExitCode:
    """Write the winners of a GPU's leaderboard to kernels/pinned/; measures nothing."""
    if gpus.find(gpu, auto=False).is_cpu:
        raise UsageError("what a CPU measured holds for that machine alone, and is not published")
    tree = Tree.here()
    path = published.place(tree.root, gpu)
    try:
        before = published.read(path) if path.is_file() else published.Publication(gpu)
    except InfrastructureError as error:
        raise InfrastructureError(f"{error}; restore it: git checkout -- {tree.short(path)}, or remove it") from None
    made, complaints = publication(tree, gpu, before)
    for complaint in complaints:
        console.print(complaint, markup=False)
    if not made.winners and not made.library:
        raise UsageError(f"no row of tuning/{gpu}/ holds, so there is nothing to publish; bench on that GPU first")
    wanted = published.encode(made)
    current = path.is_file() and path.read_bytes() == wanted
    if not check and not current:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wanted)
    if json:
        emit({"path": tree.short(path), "current": current or not check, "publication": made})
    else:
        held = f"{len(made.winners)} winners, {len(made.library)} problems for the library"
        print(f"{tree.short(path)}: {held}" if current or not check else _outdated(tree.short(path), gpu))
    return ExitCode.PASSED if current or not check else ExitCode.REJECTED


def _outdated(path: str, gpu: str) -> str:
    return f"{path} is not what the leaderboard gives; write it anew: tilebench publish --gpu {gpu}"
