"""Verbs of the tuner: tune searches a family's space and pins the winner; searches shows what one found."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from cyclopts import Parameter

from harness.authoring import scaffold
from harness.boards import tables
from harness.boards.sustained import require_limit
from harness.catalog import gpus
from harness.catalog.families import Families
from harness.catalog.fitting import require_fit
from harness.catalog.tree import Tree, check_model
from harness.cli import many
from harness.cli.options import FleetOptions, MeasureOptions, Parent, SelectionOptions, TableFormat
from harness.cli.reply import Reply, reported
from harness.errors import ExitCode, UsageError
from harness.extras.tune import show
from harness.extras.tune.autotuner import AutotunerOptions
from harness.extras.tune.engine import autotune
from harness.extras.tune.race import EXHAUSTIVE, RUNGS
from harness.extras.tune.race_runner import tune as carry_out
from harness.extras.tune.record import Pick, TuningTrial, picks_path, trials_path
from harness.extras.tune.search import Tuned, TunePlan
from harness.extras.tune.space import frozen, words
from harness.extras.tune.survey import Surveyed
from harness.judge.facts.problem import parse_shape_key
from harness.machine import hints
from harness.machine.progress import console
from harness.machine.ranges import AT_LEAST_1
from harness.machine.table import bounded, paragraph, with_interval
from harness.records.base import Regime
from harness.records.store import read

Engine = Literal["tilebench", "tilelang", "exhaustive"]
_JUDGED: Final = ("budget", "deadline", "attempts")  # options of the judge, which TileLang's autotuner does not call


class TuneData(msgspec.Struct, frozen=True):
    """The pick, null where no candidate passed; how many candidates were measured now, and known before.

    With several GPUs ``picks`` holds the pick of each problem, and the other fields are empty.
    """

    pick: Pick | None
    measured: int = 0
    known: int = 0
    survey: Surveyed | None = None
    picks: tuple[Pick, ...] = ()


class TuningData(msgspec.Struct, frozen=True):
    """The newest trial of each candidate of one search, or with ``--picks`` every search's pick."""

    trials: tuple[TuningTrial, ...] = ()
    picks: tuple[Pick, ...] = ()


def tune(
    chosen: SelectionOptions = SelectionOptions(),
    how: MeasureOptions = MeasureOptions(),
    tilelang: AutotunerOptions = AutotunerOptions(),
    fleet: FleetOptions = FleetOptions(),
    *,
    engine: Annotated[
        Engine,
        Parameter(help="tilebench: the race; tilelang: its autotuner; exhaustive: every candidate like an iteration."),
    ] = "tilebench",
    family: Annotated[
        list[str] | None,
        Parameter(negative="", help="A family such as pipelined; may be repeated; by default the problem's own."),
    ] = None,
    screen: Annotated[
        bool, Parameter(help="First time all candidates unverified, and race only those that may lead.")
    ] = True,
    carver: Annotated[bool, Parameter(help="Also start from the suggestions of tilelang.carver.")] = True,
    objective: Annotated[
        Regime, Parameter(help="What decides between the race's first candidates: equal clocks, or the power limit.")
    ] = Regime.PAIRED,
    parent: Parent = None,
) -> Reply[TuneData]:
    """Race the configurations of a family's space against the library, and pin the winner as the next iteration."""
    judged = any(getattr(how, name) != getattr(MeasureOptions(), name) for name in _JUDGED)
    if engine == "tilelang" and (judged or not screen):
        raise UsageError("--budget, --deadline, --attempts, --no-screen are the race's; --engine tilelang takes none")
    if engine != "tilelang" and tilelang != AutotunerOptions():
        named = ", ".join(f"--{name}" for name in many.changed(tilelang))
        raise UsageError(f"{named}: an option of TileLang's own autotuner; give --engine tilelang too")
    if engine == "tilelang" and objective is Regime.SUSTAINED:
        raise UsageError("--objective sustained is the race's last rung; --engine tilelang has none")
    if fleet.wanted:
        given: dict[str, object] = {"engine": engine, "family": family, "screen": screen, "carver": carver}
        given |= {"objective": objective.value, "parent": parent} | many.changed(how) | many.changed(tilelang)
        return _on_many(chosen, fleet, engine, given, force=how.force)
    shape, model = chosen.ladder("tune", "searches a family's space, not an iteration")
    problem = parse_shape_key(shape)
    check_model(model)
    gpu, device = gpus.resolve(chosen.gpu, force=how.force)
    require_fit([(shape, problem)], gpu, device)
    if objective is Regime.SUSTAINED:
        require_limit(gpu, device, problem)
    tree = Tree.here()
    known = Families.of(tree.root)
    searched = [known.fitting(each, problem, gpu) for each in family] if family else [known.searched(problem, gpu)]
    plan = TunePlan(
        tree=tree,
        gpu=gpu,
        device=device,
        problem=problem,
        model=model,
        families=tuple(each.name for each in searched),
        settings=how.settings(gpu),
        carver=carver,
        again=how.again,
        parent=parent,
        screened=screen and engine != "exhaustive",
        rungs=EXHAUSTIVE if engine == "exhaustive" else RUNGS,
        engine=engine,
        objective=objective,
    )
    if parent is not None:
        scaffold.LadderFiles(tree, gpu, problem, model).named(parent)  # before a long search
    tuned = autotune(plan, tilelang) if engine == "tilelang" else carry_out(plan)
    pick, surveyed = tuned.pick, tuned.surveyed
    console.print(
        f"{len(surveyed.entries)} candidates, {surveyed.refused} refused by the family; {surveyed.carver}", markup=False
    )
    data = TuneData(pick, tuned.measured, tuned.reused, surveyed)
    if pick is None:
        problems = reported([f"no candidate passed; the first said: {tuned.first_failure}"])
        return Reply(data, lambda: "", ExitCode.REJECTED, problems)
    return Reply(data, lambda: _text(plan, tuned, pick))


def _on_many(
    chosen: SelectionOptions, fleet: FleetOptions, engine: Engine, given: dict[str, object], *, force: bool
) -> Reply[TuneData]:
    """Tune each chosen problem on a GPU of its own; without --shape all of the notebook, or of the set."""
    if chosen.model is None or chosen.iter is not None or chosen.share is not None:
        raise UsageError("tune on many GPUs needs --model, and takes neither --iter nor --share")
    check_model(chosen.model)
    tree, (gpu, _) = Tree.here(), many.resolve(chosen, fleet, force=force)
    own = [chosen.shape] if chosen.shape and not chosen.names_operator else []
    calls = chosen.problem_set.calls if chosen.problem_set else own
    problems = list(map(parse_shape_key, filter(chosen.selection.takes_problem, calls)))
    listed, _ = tree.scan(gpu.key, replace(chosen.selection, model=None))
    problems = list(dict.fromkeys(problems or [each.problem for each in listed]))
    if not problems:
        raise UsageError(tables.no_iteration(tree, gpu.key, chosen.selection))
    code = many.run_errands(fleet, gpu, many.of_problem("tune", gpu, chosen, given), problems)
    keys = [each.shape_key for each in problems]
    ended = [read(picks_path(tree, gpu.key, key, chosen.model), Pick)[0] for key in keys]
    newest = [found[-1] for picks in ended if (found := [each for each in picks if each.engine == engine])]
    lines = [
        f"{each.shape_key}: {each.iteration} of {each.candidates} candidates, ratio {bounded(each)}" for each in newest
    ]
    return Reply(TuneData(None, picks=tuple(newest)), lambda: "\n".join(lines), code)


def searches(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    levers: Annotated[
        str | None, Parameter(help="Two levers, such as block_M,block_N; by default those that matter most.")
    ] = None,
    engine: Annotated[Engine, Parameter(help="The engine of the search.")] = "tilebench",
    race: Annotated[int | None, Parameter(help="Number of the search; by default the engine's newest.")] = None,
    picture: Annotated[Path | None, Parameter(help="Also write a heat map, .svg or .png.")] = None,
    most: Annotated[int, AT_LEAST_1, Parameter(help="Candidates in the list below the table.")] = 12,
    picks: Annotated[bool, Parameter(negative="", help="List every search and its pick instead.")] = False,
    format: TableFormat = "simple",
) -> Reply[TuningData]:
    """Show what a search found: a pivot table over two levers, the best candidates, and a heat map."""
    shape, model = chosen.ladder("searches", "shows a search, and --race names which", reads=True)
    parse_shape_key(shape)
    check_model(model)
    if picture is not None and (picks or chosen.json):
        raise UsageError("--picture draws one search's table; leave --picks and --json out")
    tree, place = Tree.here(), (chosen.key, shape, model)
    trials, complaints = read(trials_path(tree, *place), TuningTrial)
    pinned, more = read(picks_path(tree, *place), Pick)
    problems = reported([*complaints, *more])
    if picks:
        return Reply(TuningData(picks=tuple(pinned)), lambda: show.searches(pinned, format), problems=problems)
    found = show.chosen(trials, engine, race)

    def text() -> str:
        pair, title = show.levers_of(found, levers), show.title_of(found, pinned)
        measure = "latency in ms by TileLang's profiler" if engine == "tilelang" else "ratio to the baseline"
        likely = "; ~ by the screen's time alone" if any(each.likely for each in found) else ""
        if picture is not None:
            show.picture(picture, found, pair, title)
            console.print(f"heat map: {picture}", markup=False)
        head = f"{paragraph(title)}\n{paragraph(f'best {measure} over all other levers{likely}')}"
        return f"{head}\n\n{show.pivot(found, pair, format)}\n\n{show.field(found, most, format)}"

    return Reply(TuningData(trials=tuple(each.trial for each in found)), text, problems=problems)


def _text(plan: TunePlan, tuned: Tuned, pick: Pick) -> str:
    folder = plan.tree.sources(*pick.ladder)
    lines = [f"{plan.tree.short(folder / pick.iteration)}.py: {words(frozen(pick.config))}"]
    if pick.latency_ms is not None:
        lines.append(f"{pick.latency_ms:.4g} ms by TileLang's profiler; `{hints.program()} bench` judges it")
    if pick.ratio is not None:
        level = f"level with {len(pick.ties)} more" if pick.ties else "leads alone"
        lines.append(f"ratio {bounded(pick)}, {level}; `{hints.program()} bench` records it")
    if pick.sustained_ratio is not None:
        reached = with_interval(pick.sustained_ratio, pick.sustained_ratio_low, pick.sustained_ratio_high)
        lines.append(f"sustained ratio {reached} at the power limit")
    spared = f", {tuned.spared} too slow in the screen to be raced" if tuned.spared else ""
    return "\n".join([*lines, f"{tuned.measured} measured, {tuned.reused} known before{spared}"])
