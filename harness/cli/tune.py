"""The verb tune: search a family's space, and pin the winner as the next iteration."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from harness.authoring import scaffold
from harness.boards.tables import check_format
from harness.catalog import gpus
from harness.catalog.tree import Tree, check_model
from harness.cli.app import app, emit
from harness.cli.options import Choice, Manner, check_least, check_seconds
from harness.errors import ExitCode, UsageError
from harness.extras.tune import show
from harness.extras.tune.autotuner import AutotunerOptions
from harness.extras.tune.engine import autotune
from harness.extras.tune.plan import TunePlan
from harness.extras.tune.race import EXHAUSTIVE, RUNGS
from harness.extras.tune.record import Pick, Trial, picks_path, trials_path
from harness.extras.tune.run import Tuned
from harness.extras.tune.run import tune as carry_out
from harness.extras.tune.space import frozen, named_family, own_family, words
from harness.judge.facts.problem import parse_shape_key
from harness.machine.progress import console
from harness.records.store import read

_JUDGED: Final = (Manner.budget, Manner.deadline, Manner.attempts)


@Parameter(name="*", group="TileLang's own autotuner, --engine tilelang")
@dataclass(frozen=True)
class Autotuner:
    """Options of TileLang's autotuner, under its own names."""

    warmup: Annotated[int, Parameter(help="Launches before a candidate is timed.")] = 25
    rep: Annotated[int, Parameter(help="Launches that are timed.")] = 100
    timeout: Annotated[int, Parameter(help="Seconds for one candidate at most.")] = 30
    supply: Annotated[
        Literal["inputs", "program", "Integer", "Uniform", "Normal", "Randn", "Zero", "One", "Auto"] | None,
        Parameter(help="set_autotune_inputs, a supply program, or a TensorSupplyType; what fits where not given."),
    ] = None
    check: Annotated[bool, Parameter(help="Compare with the reference; its disk cache keeps only what was not.")] = True
    rtol: Annotated[float, Parameter(help="Relative tolerance of its check.")] = 1e-2
    atol: Annotated[float, Parameter(help="Absolute tolerance of its check.")] = 1e-2
    max_mismatched_ratio: Annotated[float, Parameter(help="Part of the elements that may be off.")] = 0.01
    early_stop: Annotated[bool, Parameter(help="Stop timing what is slower than the best by a factor.")] = False
    early_stop_factor: Annotated[float, Parameter(help="That factor.")] = 2.0
    backend: Annotated[Literal["event", "cupti", "cudagraph"], Parameter(help="Its timer; on a CPU wall.")] = "event"
    cache: Annotated[bool, Parameter(help="Use its caches on the disk.")] = True
    limit: Annotated[float, Parameter(help="Seconds for all of it at most.")] = 1800.0

    @property
    def options(self) -> AutotunerOptions:
        """The options as the child takes them; raises UsageError."""
        for name, least in (("warmup", 0), ("rep", 1), ("timeout", 1), ("rtol", 0), ("atol", 0)):
            if not least <= getattr(self, name) < float("inf"):
                raise UsageError(f"--{name} {getattr(self, name):g} is not {least} or more")
        check_seconds("limit", self.limit)
        if not 1 <= self.early_stop_factor < float("inf") or not 0 <= self.max_mismatched_ratio <= 1:
            raise UsageError("--early-stop-factor is 1 or more, and --max-mismatched-ratio from 0 to 1")
        own = {field.name: getattr(self, field.name) for field in fields(AutotunerOptions)}
        return AutotunerOptions(**own)


@app.command
def tune(
    choice: Choice = Choice(),
    manner: Manner = Manner(),
    autotuner: Autotuner = Autotuner(),
    *,
    engine: Annotated[
        Literal["tilebench", "tilelang", "exhaustive"],
        Parameter(help="Who searches: the race, TileLang's autotuner, or a race that drops nobody early."),
    ] = "tilebench",
    family: Annotated[
        list[str] | None, Parameter(help="A family such as pipelined, several if repeated; the problem's own else.")
    ] = None,
    screen: Annotated[
        bool, Parameter(help="Time all candidates unverified first, and race only those that may lead.")
    ] = True,
    carver: Annotated[bool, Parameter(help="Start from the suggestions of tilelang.carver too.")] = True,
    parent: Annotated[
        str | None, Parameter(name=("--from", "--parent"), help="The winner's parent; the newest iteration else.")
    ] = None,
) -> ExitCode:
    """Race the configurations of a family's space against the library, and pin the winner as the next iteration."""
    if choice.shape is None or choice.model is None:
        raise UsageError("tune needs --shape and --model, e.g. --shape matmul_bf16fp32_4096x4096x4096 --model tuner")
    if choice.iter is not None:
        raise UsageError("tune searches a family's space, not an iteration; leave --iter out")
    if engine == "tilelang" and ((manner.budget, manner.deadline, manner.attempts) != _JUDGED or not screen):
        raise UsageError("--budget, --deadline, --attempts, --no-screen are the race's; --engine tilelang takes none")
    if engine != "tilelang" and autotuner != Autotuner():
        raise UsageError("--warmup to --limit are of TileLang's own autotuner; give --engine tilelang too")
    problem = parse_shape_key(choice.shape)
    check_model(choice.model)
    options = autotuner.options
    gpu, device = gpus.resolve(choice.gpu, force=manner.force)
    families = tuple(named_family(each, gpu) for each in family or (own_family(problem, gpu),))
    plan = TunePlan(
        tree=Tree.here(),
        gpu=gpu,
        device=device,
        problem=problem,
        model=choice.model,
        families=families,
        settings=manner.settings(gpu),
        carver=carver,
        again=manner.again,
        parent=parent,
        screened=screen and engine != "exhaustive",
        rungs=EXHAUSTIVE if engine == "exhaustive" else RUNGS,
        engine=engine,
    )
    if parent is not None:
        scaffold.require_parent(plan.tree, problem, gpu, choice.model, parent)
    tuned = autotune(plan, options, autotuner.limit) if engine == "tilelang" else carry_out(plan)
    return _report(plan, tuned, choice)


@app.command
def tuning(
    choice: Choice = Choice(),
    *,
    levers: Annotated[
        str | None, Parameter(help="Two levers, as block_M,block_N; else those that matter most.")
    ] = None,
    engine: Annotated[Literal["tilebench", "tilelang", "exhaustive"], Parameter(help="Whose search.")] = "tilebench",
    race: Annotated[int | None, Parameter(help="Which search of that engine; the newest else.")] = None,
    picture: Annotated[Path | None, Parameter(help="Write a heat map there too, .svg or .png.")] = None,
    most: Annotated[int, Parameter(help="Candidates in the list below the table.")] = 12,
    picks: Annotated[bool, Parameter(negative="", help="List every search and its pick instead.")] = False,
    format: Annotated[str, Parameter(help="A tabulate format.")] = "simple",
) -> ExitCode:
    """Show what a search found: a pivot table over two levers, the best candidates, and a heat map."""
    if choice.shape is None or choice.model is None:
        raise UsageError("tuning needs --shape and --model, those of the search")
    if choice.iter is not None:
        raise UsageError("tuning shows a search, not an iteration; --race names which, so leave --iter out")
    parse_shape_key(choice.shape)
    check_model(choice.model)
    check_format(format)
    check_least("most", most, 1)
    if picture is not None and (picks or choice.json):
        raise UsageError("--picture draws one search's table; leave --picks and --json out")
    tree, place = Tree.here(), (choice.key, choice.shape, choice.model)
    trials, complaints = read(trials_path(tree, *place), Trial)
    pinned, more = read(picks_path(tree, *place), Pick)
    for complaint in (*complaints, *more):
        console.print(complaint, markup=False)
    if picks:
        if choice.json:
            emit(pinned)
        else:
            print(show.searches(pinned, format))
        return ExitCode.PASSED
    found = show.chosen(trials, engine, race)
    if choice.json:
        emit([each.trial for each in found])
        return ExitCode.PASSED
    pair = show.levers_of(found, levers)
    title = show.title_of(found, pinned)
    measure = "latency in ms by TileLang's profiler" if engine == "tilelang" else "ratio to the baseline"
    likely = "; ~ by the screen's time alone" if any(each.likely for each in found) else ""
    print(f"{title}\nbest {measure} over all other levers{likely}\n\n{show.pivot(found, pair, format)}\n")
    print(show.field(found, most, format))
    if picture is not None:
        show.picture(picture, found, pair, title)
        console.print(f"heat map: {picture}", markup=False)
    return ExitCode.PASSED


def _report(plan: TunePlan, tuned: Tuned, choice: Choice) -> ExitCode:
    surveyed = tuned.surveyed
    console.print(
        f"{len(surveyed.entries)} candidates, {surveyed.refused} refused by the family; {surveyed.carver}", markup=False
    )
    pick = tuned.pick
    if choice.json:
        emit({"pick": pick, "measured": tuned.measured, "known": tuned.reused, "survey": surveyed})
        return ExitCode.PASSED if pick else ExitCode.REJECTED
    if pick is None:
        console.print(f"no candidate passed; the first said: {tuned.first_failure}", markup=False)
        return ExitCode.REJECTED
    folder = plan.tree.folder(pick.gpu) / "srcs" / pick.shape_key / pick.model
    print(f"{plan.tree.short(folder / pick.iteration)}.py: {words(frozen(pick.config))}")
    if pick.latency_ms is not None:
        print(f"{pick.latency_ms:.4g} ms by TileLang's profiler; `tilebench bench` judges it")
    if pick.ratio is not None:
        level = f"level with {len(pick.ties)} more" if pick.ties else "leads alone"
        print(f"ratio {pick.ratio:.4f} [{pick.ratio_low:.4f}, {pick.ratio_high:.4f}], {level}")
    spared = f", {tuned.spared} too slow in the screen to be raced" if tuned.spared else ""
    print(f"{tuned.measured} measured, {tuned.reused} known before{spared}")
    return ExitCode.PASSED
