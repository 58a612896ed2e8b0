"""Verbs of the notebook: leaderboard, next, new, transfer, gather, publish, report."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from harness.authoring import scaffold
from harness.boards import dynamic, ladder_state, leaderboard, steps, tables
from harness.boards import transfer as transferring
from harness.boards.board import BoardRow
from harness.boards.ladder_state import LadderState
from harness.boards.publication import publication
from harness.boards.steps import StepBoard
from harness.boards.transfer import Transferred
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Tree
from harness.cli.options import BuildOptions, Json, Parent, SelectionOptions, TableFormat
from harness.cli.reply import Reply, reported
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.machine import files, hints
from harness.machine.table import counted, paragraph
from harness.records import published
from harness.runs import gathering
from harness.runs.gathering import Gathered


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
    shape, model = chosen.ladder("next", "shows a whole ladder", reads=True)
    attempts = BuildOptions().attempts
    tree = Tree.here()
    found, problems = ladder_state.state(tree, chosen.key, shape, model, attempts)
    if not found.iterations and (near := tables.near(tree, chosen.key, chosen.selection)):
        problems.append(f"{shape} has no iteration of {model} on {chosen.key} yet{near}")
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
        Parameter(
            negative="", help="Write no child, but copy --from as it is to this shape key's ladder; may be repeated."
        ),
    ] = None,
) -> Reply[NewData]:
    """Write the next iteration, a copy of its parent to edit; an empty ladder gets iter000 first."""
    shape, model = chosen.ladder("new", "gives the number itself, and --from names the parent")
    tree = Tree.here()
    if bind:
        if parent is None:
            raise UsageError("--bind copies the iteration that --from names; give --from too")
        if tag is not None or idea is not None:
            raise UsageError("--bind copies an iteration as it is; leave --tag and --idea out")
        if strange := next((each for each in bind if "=" in each), None):
            raise UsageError(f"--bind {strange} is no shape key; name the other problem in full, like {shape}")
        path, *copies = scaffold.bind(tree, chosen.key, shape, model, parent, bind)
        said = "\n".join(map(tree.short, copies)) or "each of these ladders has this source already"
        return Reply(NewData(str(path), tuple(map(str, copies))), lambda: said)
    parent = parent or ladder_state.state(tree, chosen.key, shape, model, BuildOptions().attempts)[0].parent
    path = scaffold.new(tree, chosen.key, shape, model, parent, tag, idea)
    return Reply(NewData(str(path)), lambda: tree.short(path))


def transfer(
    source: Annotated[str, Parameter(help="GPU key with the leaders, such as h200.")],
    chosen: SelectionOptions = SelectionOptions(),
) -> Reply[Transferred]:
    """Copy the leaders of another GPU's board, with their ancestors, into this GPU's ladders, to measure them here."""
    tree, target = Tree.here(), gpus.find(chosen.key)
    done, complaints = transferring.transfer(tree, gpus.find(source, auto=False), target, chosen.selection)
    had = f"; {counted(done.known, 'leader')} had come before" if done.known else ""
    then = f"; to measure: {hints.program()} bench --gpu {done.gpu}" if done.paths else ""
    said = f"{done.gpu}: {counted(len(done.paths), 'iteration')} added{had}{then}"
    return Reply(done, lambda: said, problems=reported(complaints))


def leaderboards(
    key: str, chosen: SelectionOptions, table_format: str = "simple", *, whole: bool = False
) -> Reply[tuple[BoardRow, ...] | StepBoard]:
    """The boards of a GPU key: the leaders, or ladders if ``whole`` or if one is chosen. Raises UsageError."""
    if chosen.set and (chosen.shape or chosen.share):
        raise UsageError("--set shows a step of all its problems; leave --shape and --share out")
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


def chosen_iterations(
    tree: Tree, chosen: SelectionOptions, *, everything: bool = False, library: bool = False
) -> tuple[list[Iteration], tuple[str, ...]]:
    """All that is selected, or the leader of each problem; the library's calls, which compile nothing, if asked for."""
    found, misplaced = tree.scan(chosen.key, chosen.selection)
    found = [each for each in found if each.number or library]
    problems = tuple(each.reason for each in misplaced)
    if found and not everything and chosen.iter is None:
        found, problems = leaderboard.leading(tree, chosen.key, chosen.selection), ()
        if not found:
            raise UsageError(
                f"no problem of {chosen.key} has a leader here yet; run bench first, or name one by --iter"
            )
    if not found:
        raise UsageError(tables.no_iteration(tree, chosen.key, chosen.selection))
    return found, reported(problems)


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
        files.put(path, wanted)
        current = True
    text = f"{name}: {counted(len(made.winners), 'winner')}, {counted(len(made.library), 'problem')} for the library"
    if made.sustained:
        text += f"\n{len(made.sustained)} other leads at the power limit: {', '.join(made.sustained)}"
    if not current:
        text = f"{name} is not what the leaderboard gives; write it anew: {hints.program()} publish --gpu {gpu}"
    code = ExitCode.PASSED if current else ExitCode.REJECTED
    return Reply(PublishData(name, current, made), lambda: "\n".join(map(paragraph, text.splitlines())), code, problems)


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
        Path | None, Parameter(help="A folder for the overview and the longest ladder as SVG files.")
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
    data = ReportData(str(path), size_bytes, len(gathered.best_first), len(gathered.newest), drawn)
    counts = f"{counted(data.problems, 'problem')}, {counted(data.iterations, 'iteration')}"
    head = f"{tree.short(path)}, {size_bytes / 1e6:.1f} MB: {counts}"
    return Reply(data, lambda: "\n".join((head, *drawn)), problems=reported(gathered.complaints))
