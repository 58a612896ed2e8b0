"""The verbs ``versus``, ``freshen`` and ``bisect``: two environments against each other."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from harness.boards import comparison
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.notebook import chosen_iterations
from harness.cli.options import Budget, GpuKey, Json, MeasureOptions, SelectionOptions
from harness.cli.reply import Reply, reported
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.extras.freshen import FreshenedRow, Freshener, stale_rows
from harness.extras.versus import rows as builds
from harness.extras.versus import show
from harness.extras.versus.bisect import Clone
from harness.extras.versus.bisect import between as releases_between
from harness.extras.versus.bisect import bisect as narrow
from harness.extras.versus.cases import cases
from harness.extras.versus.compiling import BuildCompiler
from harness.extras.versus.environment import IMAGE, RUNNING, PythonEnvironment, environment, pair
from harness.extras.versus.measured import FAIL_ON, changed, fails, is_worse, measured, settled
from harness.extras.versus.pairing import PairedRow
from harness.extras.versus.rows import BuildQuestion, VersusRow, answers, versus
from harness.judge.facts.gpu import Gpu
from harness.machine.nvml import Device
from harness.machine.progress import console, reporting
from harness.machine.ranges import POSITIVE
from harness.machine.table import PLAIN, counted, paragraph
from harness.runs.run import Plan

Question = Literal[BuildQuestion, "slower"]
Named = Annotated[
    str,
    Parameter(help="An environment: . is the running one; tilelang==0.1.14, a wheel, a virtual environment, python."),
]
ImageName = Annotated[str | None, Parameter(help="A container image in its place; with --build-only.")]


class EnvironmentFacts(msgspec.Struct, frozen=True):
    """One environment: the name that the user gave, its interpreter, and the versions that decide the code."""

    name: str
    python: Path
    python_version: str
    tilelang: str
    torch: str


class VersusData(msgspec.Struct, frozen=True):
    """One row per iteration; ``built`` builds were made now, all others were kept from before.

    ``paired`` are the measurements, without --build-only; ``rows`` are then the builds of what they found changed.
    """

    old: EnvironmentFacts
    new: EnvironmentFacts
    arch: str
    rows: tuple[VersusRow, ...]
    built: int
    paired: tuple[PairedRow, ...] = ()


def hold(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    old: Named | None = None,
    new: Annotated[str | None, Parameter(help="The other, named alike; by default the running one.")] = None,
    old_image: ImageName = None,
    new_image: ImageName = None,
    build_only: Annotated[bool, Parameter(negative="", help="Compare the compiled code; needs no GPU.")] = False,
    all: Annotated[
        bool, Parameter(negative="", help="All selected iterations; by default the leaders, or the one of --iter.")
    ] = False,
    fail_on: Annotated[
        str | None,
        Parameter(
            help="Exit with 1 for slower:1%, faster:1% or undecided; with --build-only for different, spills or "
            "registers:10%. A broken row always does."
        ),
    ] = None,
    diff: Annotated[bool, Parameter(negative="", help="Show the difference of the generated sources.")] = False,
    format: Annotated[Literal["table", "github"], Parameter(help="github is Markdown for a comment.")] = "table",
    again: Annotated[
        bool, Parameter(negative="", help="Repeat builds and measurements that are already there.")
    ] = False,
    build_deadline: Annotated[float, POSITIVE, Parameter(help="Seconds for one build.")] = 180.0,
    budget: Budget = None,
    identical: Annotated[
        bool, Parameter(negative="", help="Also measure iterations with the same code in both.")
    ] = False,
    benchmarks: Annotated[
        Path | None,
        Parameter(help="With --build-only: a tree of regression_*.py, as TileLang's, or bench_*.py, as TileOPs'."),
    ] = None,
) -> Reply[VersusData]:
    """Compare two environments: which iterations an upgrade makes slower, changes, breaks or fixes."""
    limits = comparison.limits(fail_on, *(builds.FAIL_ON if build_only else FAIL_ON))
    first, second = _named("old", old, old_image), _named("new", new, new_image, RUNNING)
    if not build_only and any(each.startswith(IMAGE) for each in (first, second)):
        raise UsageError(
            "images need --build-only: a measurement runs both environments in one set of buffers, which two "
            "containers cannot share; run-in-docker --image NAME bench holds one image against its own library"
        )
    tree = Tree.here()
    gpu, device = (gpu_of(chosen, "versus"), None) if build_only else _measuring(chosen.gpu)
    if benchmarks is not None and not build_only:
        raise UsageError(
            "--benchmarks needs --build-only; to measure examples, adopt them with --tilelang, and run versus there"
        )
    if benchmarks is not None and (old_image or new_image):
        raise UsageError("--benchmarks takes no images: a container reads this repository alone")
    iterations, problems = chosen_iterations(tree, chosen, everything=all) if benchmarks is None else ([], ())
    others, unread = cases(benchmarks) if benchmarks is not None else ([], [])
    paired: list[PairedRow] = []
    compared = counted(len(iterations) or len(others), "iteration")
    console.print(f"{compared} of {gpu.key}, each in two environments", markup=False)
    with reporting(0 if build_only else len(iterations)) as reporter:
        before, after = pair(tree, first, second, reporter)
        if not build_only:
            settings = MeasureOptions(build_deadline=build_deadline, budget=budget).settings(gpu)
            plan = Plan(tree, gpu, device, (), settings, again=again)
            paired = measured(plan, iterations, before, after, reporter, identical_too=identical)
            iterations = changed(iterations, paired)
        compiler = BuildCompiler(tree, gpu, build_deadline, reporter, again)
        rows = [] if gpu.is_cpu else versus(compiler, [*iterations, *others], before, after, diff=diff)
        paired = settled(paired, rows)
    first_facts, second_facts = (
        msgspec.convert(each, EnvironmentFacts, from_attributes=True) for each in (before, after)
    )
    data = VersusData(first_facts, second_facts, gpu.arch, tuple(rows), compiler.fresh, tuple(paired))
    failed = any(builds.fails(limits, row) for row in rows) if build_only else any(fails(limits, row) for row in paired)
    told = show.markdown if format == "github" else show.text

    def words() -> str:
        of_builds = told(rows, before, after, gpu.arch) if rows or build_only else ""
        table = "" if build_only else show.pairs(paired, "github" if format == "github" else PLAIN)
        return "\n\n".join(filter(None, (table, of_builds)))

    return Reply(data, words, ExitCode.REJECTED if failed else ExitCode.PASSED, (*problems, *reported(unread)))


def _named(side: str, environment: str | None, image: str | None, otherwise: str | None = None) -> str:
    """An environment or an image, as one word. Raises UsageError for both and for neither."""
    found = environment or (f"{IMAGE}{image}" if image else otherwise)
    if environment and image:
        raise UsageError(f"name the {side} environment by one of --{side} and --{side}-image, not by both")
    if found is None:
        raise UsageError(f"name the {side} environment by --{side} or by --{side}-image")
    return found


def freshen(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    build_deadline: Annotated[float, POSITIVE, Parameter(help="Seconds for one build.")] = 180.0,
) -> Reply[tuple[FreshenedRow, ...]]:
    """Count stale rows as fresh again where a change of their families left their code as it was; needs no GPU."""
    tree, gpu = Tree.here(), gpu_of(chosen, "freshen")
    running = environment(tree, RUNNING)
    waiting = stale_rows(tree, gpu, chosen.selection, running.tilelang)
    console.print(f"{counted(len(waiting), 'row')} of {gpu.key} stale by their families alone", markup=False)
    with reporting(0) as reporter:
        found = tuple(Freshener(tree, gpu, running, build_deadline, reporter).freshen(waiting))
    counts = Counter(each.outcome.value for each in found)
    lines = [f"{each.problem} {each.model} {each.iteration}: {each.reason}" for each in found if each.reason]
    lines.append(", ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "nothing to do")
    return Reply(found, lambda: "\n".join(map(paragraph, lines)))


class BisectData(msgspec.Struct, frozen=True):
    """The last release or commit without the difference, the first with it, the question, and the skipped ones."""

    row: str
    question: str
    good: str
    bad: str
    asked: dict[str, bool]
    skipped: dict[str, str]
    notes: tuple[str, ...]


def bisect(
    *,
    old: Annotated[str, Parameter(help="The older release, such as 0.1.9, or a revision of the clone.")],
    new: Annotated[str, Parameter(help="The newer one.")],
    row: Annotated[str, Parameter(help="A problem's shape key, for its leader, or SHAPE/MODEL/ITERATION.")],
    question: Annotated[
        Question,
        Parameter(help="Find the first with other code, that does not compile, that spills more, or that is slower."),
    ] = "different",
    clone: Annotated[Path | None, Parameter(help="A clone of TileLang: bisect its commits.")] = None,
    build_command: Annotated[
        str, Parameter(help="The command that builds a commit's wheel, run in a folder of its own.")
    ] = "pip wheel --no-deps --wheel-dir dist .",
    over: Annotated[
        str | None,
        Parameter(help="With --clone: lay each commit's Python files and headers over this release; compile nothing."),
    ] = None,
    build_deadline: Annotated[float, POSITIVE, Parameter(help="Seconds for one build.")] = 180.0,
    budget: Budget = None,
    gpu: GpuKey = gpus.AUTO,
    json: Json = False,
) -> Reply[BisectData]:
    """Find the first release of TileLang, or commit of a clone, that changes or breaks an iteration."""
    if over is not None and clone is None:
        raise UsageError("--over lays commits over a release: name the clone that has them with --clone")
    tree, chosen = Tree.here(), _row_selected(row, gpu)
    key, device = _measuring(chosen.gpu) if question == "slower" else (gpu_of(chosen, "bisect"), None)
    (iteration, *more), _ = chosen_iterations(tree, chosen, everything=False)
    if more:
        raise UsageError(f"--row {row} names {1 + len(more)} iterations; name one, such as {row}/{iteration.model}/3")
    rows: dict[str, VersusRow] = {}
    with reporting(0) as reporter:
        source = Clone(tree, clone, build_command, reporter, over) if clone is not None else None
        names = source.commits(old, new) if source is not None else releases_between(old, new)
        compiler = BuildCompiler(tree, key, build_deadline, reporter)

        def held(name: str) -> PythonEnvironment:
            return source.environment(name) if source is not None else environment(tree, name, reporter)

        first = held(names[0])

        def ask(name: str) -> bool:
            if question == "slower":
                settings = MeasureOptions(build_deadline=build_deadline, budget=budget).settings(key)
                both, plan = (first, held(name)), Plan(tree, key, device, (), settings)
                return is_worse(plan, iteration, *both, reporter, lambda: versus(compiler, [iteration], *both))
            (rows[name],) = versus(compiler, [iteration], first, held(name))
            if error := rows[name].old.error:
                raise UsageError(f"{names[0]} does not build {iteration}, so nothing later is held against it: {error}")
            reporter.finished(f"{name}: {rows[name].verdict}")
            return answers(question, rows[name])

        found = narrow(names, ask)
    notes = rows[found.bad].notes if found.bad in rows else ()
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
    chosen = SelectionOptions(gpu=gpu, shape=shape, model=model, iter=iteration)
    chosen.one_problem("bisect", "--row")
    return chosen


def _measuring(key: str) -> tuple[Gpu, Device | None]:
    """The device of a measurement. Raises InfrastructureError where there is none."""
    try:
        return gpus.resolve(key)
    except InfrastructureError as error:
        raise InfrastructureError(f"{error}, or compare the compiled code, which needs no GPU") from None


def gpu_of(chosen: SelectionOptions, verb: str) -> Gpu:
    """The GPU to compile for. Raises UsageError for a CPU, of which no machine code is kept."""
    gpu = gpus.find(chosen.key)
    if gpu.is_cpu:
        raise UsageError(f"{verb} compares code for GPUs; name one with --gpu, e.g. --gpu h200")
    return gpu
