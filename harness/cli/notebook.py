"""Verbs of the notebook: leaderboard, next, new."""

from typing import Annotated

import msgspec
from cyclopts import Parameter

from harness.authoring import scaffold
from harness.boards import dynamic, ladder_state, leaderboard, steps, tables
from harness.boards.board import BoardRow
from harness.boards.ladder_state import LadderState
from harness.boards.steps import StepBoard
from harness.catalog.tree import Tree
from harness.cli.options import BuildOptions, Parent, SelectionOptions, TableFormat
from harness.cli.reply import Reply, reported
from harness.errors import UsageError


class NewData(msgspec.Struct, frozen=True):
    """Where the new iteration lies; with --bind the one that was copied, and where its copies lie."""

    path: str
    bindings: tuple[str, ...] = ()


def show_boards(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    all: Annotated[bool, Parameter(negative="", help="Show every row of every problem, not only the leaders.")] = False,
    format: TableFormat = "simple",
) -> Reply[tuple[BoardRow, ...] | StepBoard]:
    """Print the leader of each problem, or with --shape a whole ladder, from the records; measures nothing.

    With --set it also says how many times as fast the set's kernels make the step.
    """
    return leaderboards(chosen.key, chosen, format, whole=all)


def show_state(chosen: SelectionOptions = SelectionOptions()) -> Reply[LadderState]:
    """Show the state of one ladder: the best, what was tried, and what to try next; measures nothing."""
    shape, model = chosen.ladder("next", "shows a whole ladder")
    attempts = BuildOptions().attempts
    found, problems = ladder_state.state(Tree.here(), chosen.key, shape, model, attempts)
    return Reply(found, lambda: ladder_state.page(found), problems=reported(problems))


def new(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    parent: Parent = None,
    idea: Annotated[
        int | None, Parameter(help="Number of an idea of the parent's profile; by default the first untried, 0: none.")
    ] = None,
    tag: Annotated[str | None, Parameter(help="The new iteration's tag; by default the idea's, or next_idea.")] = None,
    bind: Annotated[
        list[str] | None,
        Parameter(help="Write no child, but copy --from as it is to the ladder of this shape key; may be repeated."),
    ] = None,
) -> Reply[NewData]:
    """Write the next iteration, a copy of its parent to edit; an empty ladder gets iter000 first."""
    shape, model = chosen.ladder("new", "gives the number itself, and --from names the parent")
    tree = Tree.here()
    if bind:
        if parent is None:
            raise UsageError("--bind copies the iteration that --from names; give --from too")
        path, *copies = scaffold.bind(tree, chosen.key, shape, model, parent, bind)
        said = "\n".join(map(tree.short, copies)) or "each of these ladders has this source already"
        return Reply(NewData(str(path), tuple(map(str, copies))), lambda: said)
    parent = parent or ladder_state.state(tree, chosen.key, shape, model, BuildOptions().attempts)[0].parent
    path = scaffold.new(tree, chosen.key, shape, model, parent, tag, idea)
    return Reply(NewData(str(path)), lambda: tree.short(path))


def leaderboards(
    key: str, chosen: SelectionOptions, table_format: str = "simple", *, whole: bool = False
) -> Reply[tuple[BoardRow, ...] | StepBoard]:
    """The boards of a GPU key: the leaders, or ladders if ``whole`` or if one is chosen. Raises UsageError."""
    boards, complaints = leaderboard.boards(Tree.here(), key, chosen.selection)
    problems = reported(complaints)
    if not boards and not chosen.set:
        raise UsageError(tables.no_iteration(Tree.here(), key, chosen.selection))
    whole = whole or chosen.iter is not None or len({board.problem for board in boards}) == 1
    show = tables.ladders if whole else tables.leaders
    if chosen.set and (given := chosen.problem_set):
        step = steps.step_board(chosen.set, given, boards)
        above = f"{show(boards, table_format)}\n\n" if boards else ""
        return Reply(step, lambda: f"{above}{steps.told(step)}", problems=problems)
    return Reply(
        tuple(row for board in boards for row in (*board.rows, *board.opponents)),
        lambda: "\n\n".join(filter(None, (show(boards, table_format), dynamic.told(dynamic.dynamic_kernels(boards))))),
        problems=problems,
    )
