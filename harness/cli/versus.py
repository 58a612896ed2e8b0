"""Verbs for upgrades: versus holds two environments against each other, bisect finds the release that differs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from harness.boards import leaderboard, tables
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Tree
from harness.cli.app import app
from harness.cli.options import GpuKey, Json, SelectionOptions, check_seconds
from harness.cli.reply import Reply, reported
from harness.errors import ExitCode, UsageError
from harness.extras.versus import show
from harness.extras.versus.bisect import Clone
from harness.extras.versus.bisect import between as releases_between
from harness.extras.versus.bisect import bisect as narrow
from harness.extras.versus.compiling import BuildCompiler
from harness.extras.versus.environment import RUNNING, PythonEnvironment, environment, pair
from harness.extras.versus.rows import BuildQuestion, FailOn, VersusRow, answers, versus
from harness.judge.facts.gpu import Gpu
from harness.machine.progress import console, reporting
from harness.machine.table import paragraph

Named = Annotated[
    str,
    Parameter(help="An environment: . is the running one; tilelang==0.1.14, a wheel, a virtual environment, python."),
]


class EnvironmentFacts(msgspec.Struct, frozen=True):
    """One environment: what the user called it, its interpreter, and its versions of what compiles."""

    name: str
    python: str
    python_version: str
    tilelang: str
    torch: str

    @classmethod
    def of(cls, environment: PythonEnvironment) -> "EnvironmentFacts":
        return cls(
            environment.name,
            str(environment.python),
            environment.python_version,
            environment.tilelang,
            environment.torch,
        )


class VersusData(msgspec.Struct, frozen=True):
    """One row per iteration; ``built`` builds were made now, all others were kept from before."""

    old: EnvironmentFacts
    new: EnvironmentFacts
    arch: str
    rows: tuple[VersusRow, ...]
    built: int


@app.command(name="versus")
def hold(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    old: Named,
    new: Named = RUNNING,
    build_only: Annotated[bool, Parameter(negative="", help="Compare the compiled code; needs no GPU.")] = False,
    all: Annotated[
        bool, Parameter(negative="", help="All iterations; by default the leaders, or what is named.")
    ] = False,
    fail_on: Annotated[
        str | None,
        Parameter(help="Exit with 1 for these too: different, spills, registers:10%. A broken row always does."),
    ] = None,
    diff: Annotated[bool, Parameter(negative="", help="Show the difference of the generated sources.")] = False,
    format: Annotated[Literal["table", "github"], Parameter(help="github is Markdown for a comment.")] = "table",
    again: Annotated[bool, Parameter(negative="", help="Repeat what is already built.")] = False,
    build_deadline: Annotated[float, Parameter(help="Seconds for one build.")] = 180.0,
) -> Reply[VersusData]:
    """Hold two environments against each other: which iterations an upgrade changes, breaks or mends."""
    if not build_only:
        raise UsageError("versus compares builds so far; add --build-only")
    limits = FailOn.parse(fail_on)
    check_seconds("build-deadline", build_deadline)
    tree, gpu = Tree.here(), gpu_of(chosen)
    iterations, problems = chosen_iterations(tree, chosen, everything=all)
    console.print(f"{len(iterations)} iterations of {gpu.key}, each in two environments", markup=False)
    with reporting(0) as reporter:
        before, after = pair(tree, old, new, reporter)
        compiler = BuildCompiler(tree, gpu, build_deadline, reporter, again)
        rows = versus(compiler, iterations, before, after, diff=diff)
    data = VersusData(EnvironmentFacts.of(before), EnvironmentFacts.of(after), gpu.arch, tuple(rows), compiler.fresh)
    told = show.markdown if format == "github" else show.text
    code = ExitCode.REJECTED if any(map(limits.fails, rows)) else ExitCode.PASSED
    return Reply(data, lambda: told(rows, before, after, gpu.arch), code, problems)


class BisectData(msgspec.Struct, frozen=True):
    """The last release or commit without the difference, the first with it, and what was asked or passed over."""

    row: str
    question: str
    good: str
    bad: str
    asked: dict[str, bool]
    skipped: dict[str, str]
    notes: tuple[str, ...]


@app.command
def bisect(
    *,
    old: Annotated[str, Parameter(help="The older release, such as 0.1.9, or a revision of the clone.")],
    new: Annotated[str, Parameter(help="The newer one.")],
    row: Annotated[
        str, Parameter(help="A problem's shape key, whose leader is asked about, or SHAPE/MODEL/ITERATION.")
    ],
    question: Annotated[
        BuildQuestion,
        Parameter(help="The first whose code differs, that does not compile, or that spills more."),
    ] = "different",
    clone: Annotated[Path | None, Parameter(help="A clone of TileLang: bisect its commits.")] = None,
    build_command: Annotated[
        str, Parameter(help="What makes a wheel of a commit, run in a folder of its own.")
    ] = "pip wheel --no-deps --wheel-dir dist .",
    build_deadline: Annotated[float, Parameter(help="Seconds for one build.")] = 180.0,
    gpu: GpuKey = gpus.AUTO,
    json: Json = False,
) -> Reply[BisectData]:
    """Find the first release of TileLang, or commit of a clone, that changes or breaks an iteration."""
    check_seconds("build-deadline", build_deadline)
    tree, chosen = Tree.here(), _row_selected(row, gpu)
    key = gpu_of(chosen)
    (iteration, *more), _ = chosen_iterations(tree, chosen, everything=False)
    if more:
        raise UsageError(f"--row {row} names {1 + len(more)} iterations; name one, such as {row}/{iteration.model}/3")
    rows: dict[str, VersusRow] = {}
    with reporting(0) as reporter:
        source = Clone(tree, clone, build_command, reporter) if clone is not None else None
        names = source.commits(old, new) if source is not None else releases_between(old, new)
        compiler = BuildCompiler(tree, key, build_deadline, reporter)

        def held(name: str) -> PythonEnvironment:
            return source.environment(name) if source is not None else environment(tree, name, reporter)

        first = held(names[0])

        def ask(name: str) -> bool:
            (rows[name],) = versus(compiler, [iteration], first, held(name))
            reporter.finished(f"{name}: {rows[name].verdict}")
            return answers(question, rows[name])

        found = narrow(names, ask)
    notes = rows[found.bad].notes
    data = BisectData(str(iteration), question, found.good, found.bad, found.asked, found.skipped, notes)
    skipped = [f"passed over {name}: {why}" for name, why in found.skipped.items()]
    text = [f"{found.bad} is the first that is {question} for {iteration}; {found.good} is not", *notes, *skipped]
    return Reply(data, lambda: "\n".join(map(paragraph, text)))


def _row_selected(row: str, gpu: str) -> SelectionOptions:
    """The selection that a row's name means. Raises UsageError."""
    parts = row.split("/")
    if len(parts) not in (1, 3) or not all(parts):
        raise UsageError(f"--row '{row}' is neither a shape key nor SHAPE/MODEL/ITERATION")
    shape, model, iteration = (*parts, None, None)[:3]
    number = iteration.partition("_")[0] if iteration else None
    return SelectionOptions(gpu, shape, model, number)


def gpu_of(chosen: SelectionOptions) -> Gpu:
    """The GPU to compile for. Raises UsageError for a CPU, of which no machine code is kept."""
    gpu = gpus.find(chosen.key)
    if gpu.is_cpu:
        raise UsageError("versus compares code for GPUs; name one with --gpu, e.g. --gpu h200")
    return gpu


def chosen_iterations(
    tree: Tree, chosen: SelectionOptions, *, everything: bool
) -> tuple[list[Iteration], tuple[str, ...]]:
    """All that is selected, or the leader of each problem; never a call of the library, which compiles nothing."""
    found, misplaced = tree.scan(chosen.key, chosen.selection)
    found = [each for each in found if each.number]
    problems = tuple(each.reason for each in misplaced)
    if not everything and chosen.iter is None:
        found, problems = _leaders(tree, chosen, found), ()
    if not found:
        raise UsageError(tables.no_iteration(tree, chosen.key, chosen.selection))
    return found, reported(problems)


def _leaders(tree: Tree, chosen: SelectionOptions, found: Sequence[Iteration]) -> list[Iteration]:
    """The first ranked row of each problem's newest board that is no call of the library."""
    first: dict[str, tuple[str, str]] = {}
    for board in leaderboard.boards(tree, chosen.key, chosen.selection)[0]:
        ranked = (row for row in board.rows if row.rank is not None and not row.is_baseline)
        if row := next(ranked, None):
            first.setdefault(board.problem, (row.model, row.iteration))
    return [each for each in found if first.get(each.shape_key) == (each.model, each.name)]
