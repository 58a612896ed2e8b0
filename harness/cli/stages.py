"""Verbs of the pipeline: check, build, verify, bench, watch."""

from collections import Counter
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from harness.authoring import scaffold
from harness.boards import leaderboard, pairs, sustained, tables
from harness.boards.sustained import SustainedResults
from harness.catalog import gpus
from harness.catalog.fitting import require_fit
from harness.catalog.opponents import Opponents
from harness.catalog.tree import Tree
from harness.cli import many
from harness.cli.notebook import leaderboards
from harness.cli.options import (
    BuildOptions,
    FleetOptions,
    GpuKey,
    MeasureOptions,
    RunOptions,
    SelectionOptions,
    Traceback,
)
from harness.cli.reply import Reply
from harness.errors import ExitCode, UsageError
from harness.evidence import report, toolchain
from harness.evidence.report import BuildRow
from harness.judge.facts.gpu import CPU, Gpu
from harness.judge.facts.problem import parse_shape_key
from harness.judge.sustaining import SustainedSettings
from harness.machine import hints
from harness.machine.clock_lock import locked
from harness.machine.nvml import Device
from harness.machine.progress import console, reporting
from harness.machine.ranges import AT_LEAST_1, POSITIVE
from harness.machine.table import counted
from harness.records.base import Stage, Status, now
from harness.records.ceilings import CeilingRecord
from harness.records.results import Record
from harness.records.store import read
from harness.records.sustained import SustainedRecord
from harness.runs import watch as watching
from harness.runs.opponents import USUAL_S
from harness.runs.result_line import result_line
from harness.runs.run import Plan, Results, run
from harness.runs.within import ENDLESS, TIME_OVER, Deadline, by_worth

Regimes = Literal["paired", "sustained", "both"]


class RunData(msgspec.Struct, frozen=True):
    """One record per iteration; ``reused`` of them were recorded before.

    ``sustained`` holds the records of the sustained regime: leaders, opponents, and leaders against opponents.
    ``left`` counts the iterations for which ``--within`` left no time.
    """

    records: tuple[Record, ...]
    reused: int
    sustained: tuple[SustainedRecord, ...] = ()
    left: int = 0


class BuildData(msgspec.Struct, frozen=True):
    """The evidence of one build per iteration; ``reused`` of them were recorded before."""

    records: tuple[BuildRow, ...]
    reused: int


def check(chosen: SelectionOptions = SelectionOptions()) -> Reply[RunData]:
    """Check the contract on the sources; imports nothing."""
    return _reply(_carry_out(_plan(chosen, Stage.CONTRACT), chosen))


def build(
    chosen: SelectionOptions = SelectionOptions(),
    how: BuildOptions = BuildOptions(),
    fleet: FleetOptions = FleetOptions(),
    *,
    traceback: Traceback = False,
) -> Reply[BuildData]:
    """Compile iterations for the architecture of their GPU, and show the evidence; needs no GPU."""
    if fleet.wanted and fleet.address is None:
        raise UsageError("build uses all cores of this host already; --cluster adds those of other hosts")
    plan = _plan(chosen, Stage.BUILD, how)
    if fleet.wanted:
        line = many.of_problem("build", plan.gpu, chosen, many.changed(how))
        many.run_errands(fleet, plan.gpu, line, (each.problem for each in plan.iterations), Stage.BUILD)
        plan = replace(plan, again=False, settings=replace(plan.settings, again=False))
    results = _carry_out(plan, chosen, traceback)
    rows = tuple(report.row(record) for record in results.records)
    told = _reply(results)
    built = sum(record.build is not None for record in results.records)
    kept = f"\nnew code is kept in builds.jsonl under tuning/{rows[0].gpu}/" if built > results.reused else ""
    return Reply(
        BuildData(rows, results.reused),
        lambda: f"{report.tables(rows)}\n{told.text()}{kept}",
        told.exit_code,
        told.problems,
    )


def missing_extra(*, gpu: GpuKey = gpus.AUTO) -> ExitCode:
    """Print the extra of this project that a build for a GPU still needs here; for the Makefile."""
    found = gpus.find(gpus.detect() if gpu == gpus.AUTO else gpu)
    print("" if found.is_cpu else toolchain.find().missing_extra or "")
    return ExitCode.PASSED


def verify(
    chosen: SelectionOptions = SelectionOptions(),
    how: RunOptions = RunOptions(),
    fleet: FleetOptions = FleetOptions(),
    *,
    traceback: Traceback = False,
) -> Reply[RunData]:
    """Compare iterations with the reference, in random, exact, refreshed and corner trials; times nothing."""
    if fleet.wanted:
        return _on_many(chosen, Stage.VERIFY, how, fleet, traceback=traceback)
    return _reply(_carry_out(_plan(chosen, Stage.VERIFY, how, needs_device=True), chosen, traceback))


def bench(
    chosen: SelectionOptions = SelectionOptions(),
    how: RunOptions = RunOptions(),
    fleet: FleetOptions = FleetOptions(),
    *,
    opponents: Annotated[
        bool | None,
        Parameter(
            help="Measure the opponents, and the leader against the strongest; by default on GPUs without --iter."
        ),
    ] = None,
    regime: Annotated[
        Regimes, Parameter(help="paired: at equal clocks; sustained: the leaders, each side alone at the power limit.")
    ] = "both",
    sustained_top: Annotated[
        int,
        AT_LEAST_1,
        Parameter(
            help="How many first rows of a problem to measure at the power limit; rows tied with the leader always."
        ),
    ] = 1,
    lock_clock: Annotated[
        int | None, Parameter(help="Hold the SM clock at this many MHz while measuring; such rows are ranked apart.")
    ] = None,
    within: Annotated[
        float | None,
        POSITIVE,
        Parameter(help="Stop before this many minutes are over; the most important rows come first."),
    ] = None,
    traceback: Traceback = False,
) -> Reply[RunData]:
    """Verify iterations, time them against the library, and print the leaderboard."""
    by_default = chosen.iter is None and chosen.key != CPU  # a CPU shows the pipeline, and compiles them for minutes
    opposed = by_default if opponents is None else opponents
    deadline = Deadline.within(within)
    if opposed:
        Opponents.of(Tree.here().root)  # a file that cannot be read is told before hours of work
    if fleet.wanted and lock_clock is not None:
        raise UsageError("--lock-clock is for one GPU; leave --gpus and --cluster out")
    if fleet.wanted:
        more = (f"--regime={regime}", f"--sustained-top={sustained_top}", f"--{'' if opposed else 'no-'}opponents")
        further = opposed or regime != "paired"
        told = _on_many(chosen, Stage.BENCH, how, fleet, more, deadline, further=further, traceback=traceback)
        return replace(told, text=lambda: leaderboards(chosen.key, chosen).text() + _left(told.data, deadline))
    plan = _in_time(_plan(chosen, Stage.BENCH, how, needs_device=True), chosen, deadline)
    results, held = Results(), SustainedResults()
    with _clock(plan, lock_clock):
        if regime != "sustained":
            results = _carry_out(plan, chosen, traceback)
            if opposed and _has_room(deadline, "opponents"):
                with reporting(2 * len(plan.problems)) as reporter:
                    pairs.oppose(plan, reporter)
        if regime != "paired":
            held = _sustain(plan, chosen, sustained_top, opposed=opposed)
    told = _reply(results)
    if chosen.key != CPU or regime == "sustained":
        _tell_what_is_missing(plan, held)
    data = msgspec.structs.replace(told.data, sustained=tuple(held.records))
    return replace(
        told,
        data=data,
        text=lambda: leaderboards(plan.gpu.key, chosen).text() + _left(data, deadline),
        exit_code=max(told.exit_code, held.exit_code),
    )


def _tell_what_is_missing(plan: Plan, held: SustainedResults) -> None:
    """Why problems have no figure at the power limit, and what of the chip's ceiling is not known."""
    for reason in dict.fromkeys(held.skipped.values()):
        keys = [key for key, why in held.skipped.items() if why == reason]
        name = keys[0] if len(keys) == 1 else f"{len(keys)} problems"
        console.print(f"{name}: no sustained figure: {reason}", markup=False)
    if dtypes := sustained.without_ceiling(held.records, read(plan.tree.ceilings(plan.gpu.key), CeilingRecord)[0]):
        remedy = f"{hints.program()} ceiling --gpu {plan.gpu.key}"
        console.print(f"{', '.join(dtypes)}: no power ceiling of this chip yet; {remedy}", markup=False)


def _in_time(plan: Plan, chosen: SelectionOptions, deadline: Deadline) -> Plan:
    """The plan with its deadline; where one is set, what counts most comes first."""
    if not deadline.is_set:
        return plan
    boards, _ = leaderboard.boards(plan.tree, plan.gpu.key, chosen.selection)
    ranked = (row.key for board in boards for row in board.rows if row.record is not None)
    return replace(plan, iterations=tuple(by_worth(plan.iterations, ranked)), deadline=deadline)


def _has_room(deadline: Deadline, what: str) -> bool:
    """Whether there is time for what opponents take; says so where there is none."""
    if not (room := deadline.has_room(USUAL_S)):
        console.print(f"skipped   {what}: {TIME_OVER}", markup=False)
    return room


def _left(data: RunData, deadline: Deadline) -> str:
    """The last line of a run of limited time."""
    if not deadline.is_set:
        return ""
    goes_on = f"; to go on: {hints.same_command()}" if data.left else ""
    return f"\n\nrows measured: {len(data.records) - data.reused}; left: {data.left}{goes_on}"


def _clock(plan: Plan, mhz: int | None) -> AbstractContextManager[None]:
    """Hold the GPU's clock if a figure is given. Raises UsageError where it cannot be held."""
    if mhz is None:
        return nullcontext()
    if plan.device is None:
        raise UsageError("--lock-clock holds the clock of a GPU; on a CPU leave it out")
    return locked(plan.device, mhz)


def watch(
    chosen: SelectionOptions = SelectionOptions(),
    how: MeasureOptions = MeasureOptions(),
    *,
    traceback: Traceback = False,
) -> Reply[RunData]:
    """Bench a draft each time that it is saved, without a new start, until Ctrl-C: --iter, or the newest iteration."""
    found = _plan(chosen, Stage.BENCH, how, needs_device=True)
    if found.misplaced and not found.iterations:
        raise UsageError(found.misplaced[0].reason)
    if len({(each.shape_key, each.model) for each in found.iterations}) != 1:
        raise UsageError(f"watch needs --shape and --model, e.g. --shape {chosen.example} --model me")
    draft = found.iterations[-1]
    records: list[Record] = []
    with reporting(0) as reporter, suppress(KeyboardInterrupt):
        for record in watching.watch(replace(found, iterations=(draft,)), reporter):
            records.append(record)
            if traceback:
                _show_tracebacks(Results([record]))
    return Reply(RunData(tuple(records), 0), lambda: f"{counted(len(records), 'source')} of {draft.name} judged")


def _sustain(bench: Plan, chosen: SelectionOptions, top: int, *, opposed: bool) -> SustainedResults:
    """Measure leaders and opponents of the chosen problems in the sustained regime, with progress on stderr."""
    plan = replace(bench, iterations=(), misplaced=(), copies=False)
    regime = SustainedSettings()
    with reporting(0) as reporter:
        held = sustained.hold(plan, regime, chosen.selection, reporter, top)
        if opposed and not bench.gpu.is_cpu and _has_room(bench.deadline, "opponents in the sustained regime"):
            held.records += pairs.oppose_at_limit(bench, regime, reporter)
    return held


def _carry_out(plan: Plan, chosen: SelectionOptions, traceback: bool = False) -> Results:
    began = now()
    with reporting(len(plan.iterations)) as reporter:
        results = run(plan, reporter)
    if fresh := [each for each in results.records if each.recorded_at >= began and plan.uses_device]:
        console.print(_summary(plan.tree, chosen, fresh, results.reused), markup=False)
    if traceback:
        _show_tracebacks(results)
    return results


def _summary(tree: Tree, chosen: SelectionOptions, fresh: list[Record], reused: int) -> str:
    """What a run changed: the outcomes, and what leads its problem since."""
    counts = Counter(each.status.value for each in fresh)
    told = [", ".join(f"{number} {status}" for status, number in counts.items())]
    judged = {each.key for each in fresh if each.measurement}
    boards, _ = leaderboard.boards(tree, fresh[0].gpu, chosen.selection)
    rows = (row for board in boards for row in board.rows if row.rank == 1)
    lead = [f"{row.iteration} of {row.problem}" for row in rows if row.key in judged]
    told += [f"{len(lead)} of them lead: {', '.join(lead[:3])}{', …' if len(lead) > 3 else ''}"] if lead else []
    told += [f"{reused} recorded before"] if reused else []
    return "; ".join(told)


def _on_many(
    chosen: SelectionOptions,
    upto: Stage,
    how: MeasureOptions,
    fleet: FleetOptions,
    more: tuple[str, ...] = (),
    deadline: Deadline = ENDLESS,
    *,
    further: bool = False,
    traceback: bool = False,
) -> Reply[RunData]:
    """The same on many GPUs, where each problem is a command line of its own; ``more`` are words of it."""
    from harness.extras.fleet import driver  # only this needs Ray

    many.check(fleet, force=how.force)
    plan = replace(_plan(chosen, upto, how, needs_device=fleet.address is None), deadline=deadline)
    words = (*many.of_problem(upto.value, plan.gpu, chosen, many.changed(how)), *more)
    done = driver.run(driver.Fleet(plan, words, *fleet.place, further=further))
    if traceback:
        _show_tracebacks(done.results)
    told, held = _reply(done.results), SustainedResults(done.sustained)
    data = msgspec.structs.replace(told.data, sustained=tuple(held.records))
    return replace(told, data=data, exit_code=max(told.exit_code, held.exit_code))


def _plan(
    chosen: SelectionOptions, upto: Stage, how: BuildOptions = BuildOptions(), *, needs_device: bool = False
) -> Plan:
    """What is selected, with a starter ladder where the GPU key has none. Raises UsageError where nothing is."""
    tree = Tree.here()
    force = isinstance(how, MeasureOptions) and how.force
    gpu, device = gpus.resolve(chosen.gpu, force=force) if needs_device else (gpus.find(chosen.key), None)
    if needs_device and chosen.gpu == gpus.AUTO:
        name = device.name if device else "no NVIDIA GPU found, the CPU runs the pipeline"
        console.print(f"GPU key {gpu.key}: {name}", markup=False)
    if needs_device and (written := scaffold.starter(tree, gpu)):
        console.print(f"tuning/{gpu.key}/ had no iterations; it now holds a starter ladder of {len(written)} files")
    if needs_device and chosen.set and chosen.model is None and (begun := _begun(tree, gpu, device, chosen)):
        console.print(f"{chosen.set} lacked ladders; {len(begun)} files begin them under tuning/{gpu.key}/")
    iterations, misplaced = tree.scan(gpu.key, chosen.selection)
    if not iterations and not misplaced:
        raise UsageError(tables.no_iteration(tree, gpu.key, chosen.selection))
    if upto is not Stage.CONTRACT:
        require_fit(((tree.short(each.path), each.problem) for each in iterations), gpu, device)
    return Plan(
        tree=tree,
        gpu=gpu,
        device=device,
        iterations=tuple(iterations),
        misplaced=tuple(misplaced),
        upto=upto,
        settings=how.settings(gpu),
        again=how.again,
        copies=upto is Stage.BENCH,
        any_chip=isinstance(how, RunOptions) and how.any_chip,
    )


def _begun(tree: Tree, gpu: Gpu, device: Device | None, chosen: SelectionOptions) -> list[Path]:
    """First ladders of the chosen problems of a set."""
    calls = chosen.problem_set.calls if chosen.problem_set else ()
    keys = list(filter(chosen.selection.takes_problem, calls))
    require_fit(((f"set {chosen.set}: {key}", parse_shape_key(key)) for key in keys), gpu, device)
    return scaffold.first_ladders(tree, gpu, keys)


def _show_tracebacks(results: Results) -> None:
    for record in results.records:
        if record.traceback is not None:
            console.print(f"\n{record.shape_key} {record.model} {record.iteration}:\n{record.traceback}", markup=False)


def _reply(results: Results) -> Reply[RunData]:
    """The records, and how many of them passed; the run has already named the misplaced files."""
    failed = [record for record in results.records if record.status is not Status.PASSED]
    reused = f", {results.reused} of them recorded before" if results.reused else ""
    refused = f"; {counted(len(results.misplaced), 'file')} refused" if results.misplaced else ""
    return Reply(
        RunData(tuple(results.records), results.reused, left=results.left),
        lambda: f"{len(results.records) - len(failed)} of {len(results.records)} passed{reused}{refused}",
        results.exit_code,
        (*(each.reason for each in results.misplaced), *(result_line(each, gpus.find(each.gpu)) for each in failed)),
    )
