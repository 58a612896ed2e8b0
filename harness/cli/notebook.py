"""Verbs of the notebook: leaderboard, new."""

from typing import Annotated

from cyclopts import Parameter

from harness.authoring import scaffold
from harness.boards import leaderboard, tables
from harness.catalog.tree import Tree
from harness.cli.app import app, emit
from harness.cli.options import Choice
from harness.errors import ExitCode, UsageError
from harness.machine.progress import console


@app.command(name="leaderboard")
def show(
    choice: Choice = Choice(), *, format: Annotated[str, Parameter(help="A tabulate format.")] = "simple"
) -> ExitCode:
    """Print the leaderboard of what is recorded; measures nothing."""
    print_boards(choice.key, choice, format)
    return ExitCode.PASSED


@app.command
def new(
    choice: Choice = Choice(),
    *,
    parent: Annotated[
        str | None,
        Parameter(name=("--from", "--parent"), help="The iteration to start from; the newest where not given."),
    ] = None,
    idea: Annotated[
        int | None, Parameter(help="Which idea of its profile; the first where not given, none for 0.")
    ] = None,
    tag: Annotated[str | None, Parameter(help="The new iteration's tag; else the idea's, or next_idea.")] = None,
) -> ExitCode:
    """Write the next iteration, numbered, with a parent, ready to edit; from an idea of the parent's profile."""
    if choice.shape is None or choice.model is None:
        raise UsageError("new needs --shape and --model, e.g. --shape matmul_bf16fp32_4096x4096x4096 --model me")
    if choice.iter is not None:
        raise UsageError("new gives the number itself, and --from names the one to start from; leave --iter out")
    path = scaffold.new(Tree.here(), choice.key, choice.shape, choice.model, parent, tag, idea)
    if choice.json:
        emit({"path": path})
    else:
        print(Tree.here().short(path))
    return ExitCode.PASSED


def print_boards(key: str, choice: Choice, table_format: str = "simple") -> None:
    boards, complaints = leaderboard.boards(Tree.here(), key, choice.selection)
    for complaint in complaints:
        console.print(complaint, markup=False)
    if choice.json:
        emit([row for board in boards for row in board.rows])
        return
    if not boards:
        raise UsageError(tables.no_iteration(key, choice.selection))
    print("\n".join(tables.leaderboard(board, table_format) for board in boards))
