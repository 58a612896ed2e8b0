"""Verbs for trees of scripts from elsewhere: audit reads them, foreign measures them, adopt takes them over."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli import many
from harness.cli.options import (
    FleetOptions,
    Json,
    MeasureOptions,
    SelectionOptions,
    TableFormat,
)
from harness.cli.reply import Reply
from harness.errors import ExitCode, UsageError
from harness.extras.adopt import table as adopted
from harness.extras.adopt.adoption import AdoptedExample, AdoptPlan, adopt_examples
from harness.extras.foreign import board
from harness.extras.foreign.audit import audit as carry_out
from harness.extras.foreign.bench import ForeignPlan, bench, build, recorded
from harness.extras.foreign.board import ForeignBoard
from harness.extras.foreign.finding import SHOWN, AuditFinding, text
from harness.extras.foreign.record import ForeignRecord
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import CPU
from harness.judge.facts.problem import parse_shape_key
from harness.machine.progress import console
from harness.machine.ranges import EXISTING, POSITIVE
from harness.records.base import exit_code_of
from harness.records.results import Record


def audit(
    *paths: Annotated[Path, EXISTING, Parameter(help="Scripts, or folders with scripts and their figures.")],
    shape: Annotated[str | None, Parameter(help="The problem of scripts outside srcs/<shape_key>/.")] = None,
    all: Annotated[bool, Parameter(negative="", help="Show every finding, not the first ten of each kind.")] = False,
    json: Json = False,
) -> Reply[list[AuditFinding]]:
    """Read tuning scripts and their results, and say what is wrong with them; runs nothing."""
    findings = carry_out(paths or (Path(),), parse_shape_key(shape) if shape else None)
    return Reply(
        findings,
        lambda: text(findings, most=None if all else SHOWN) if findings else "nothing found",
        ExitCode.REJECTED if findings else ExitCode.PASSED,
    )


def foreign(
    tree: Annotated[Path, EXISTING, Parameter(help="A script, or a folder with scripts, in any layout.")],
    /,
    chosen: SelectionOptions = SelectionOptions(),
    how: MeasureOptions = MeasureOptions(),
    fleet: FleetOptions = FleetOptions(),
    *,
    script_deadline: Annotated[float, POSITIVE, Parameter(help="Seconds for a script that runs by itself.")] = 300.0,
    only: Annotated[str | None, Parameter(show=False)] = None,  # a worker's problem; --shape would name that of others
    format: TableFormat = "simple",
) -> Reply[list[ForeignBoard]]:
    """Judge the kernels in scripts made elsewhere; without a GPU, --gpu h200 compiles them and shows the evidence."""
    if fleet.image is not None:
        raise UsageError(f"a container does not see {tree}; leave --image out")
    named = chosen.gpu != gpus.AUTO and not gpus.find(chosen.gpu).is_cpu
    builds = named and not how.force and not fleet.wanted and gpus.detect() == CPU
    gpu, device = (gpus.find(chosen.gpu), None) if builds else many.resolve(chosen, fleet, force=how.force)
    plan = ForeignPlan(
        tree=Tree.here(),
        foreign=tree.resolve(),
        gpu=gpu,
        device=device,
        selection=chosen.selection if only is None else replace(chosen.selection, shapes=frozenset({only})),
        settings=how.settings(gpu),
        deadline_s=script_deadline,
        again=how.again,
    )
    if fleet.wanted:
        given = {"script_deadline": script_deadline} | many.changed(how)
        by = "--only" if chosen.shape is None or chosen.names_operator else "--shape"
        line = many.of_problem("foreign", gpu, chosen, given, by)
        return _on_many(plan, fleet, (*line, str(plan.foreign)), format)
    if builds:
        console.print(f"no NVIDIA GPU here: the kernels are compiled for {gpu.key}, and not run", markup=False)
        built = build(plan)
        return _reply(board.of_builds(built), [record for _, record in built], format)
    found, reused = bench(plan)
    if reused:
        console.print(f"{reused} of {len(found)} were recorded before", markup=False)
    return _reply(board.boards(found), [record for _, record in found], format)


def _on_many(plan: ForeignPlan, fleet: FleetOptions, line: Sequence[str], format: str) -> Reply[list[ForeignBoard]]:
    """Measure each problem's scripts on a GPU of their own; what no problem is known of is for one GPU alone."""
    listed = plan.scripts
    problems = [each.problem for each in listed if each.problem is not None]
    if not problems:
        raise UsageError(f"{plan.foreign} has no script of a problem that is known; leave --gpus and --cluster out")
    if unknown := len(listed) - len(problems):
        console.print(f"{unknown} scripts of no known problem are left out; without --gpus they run by themselves")
    code = many.run_errands(fleet, plan.gpu, line, problems)
    found = recorded(plan)
    told = _reply(board.boards(found), [record for _, record in found], format)
    return replace(told, exit_code=max(code, told.exit_code))


def adopt(
    examples: Annotated[Path, EXISTING, Parameter(help="A script, or a folder with examples.")],
    into: Annotated[Path, Parameter(help="The repository to write; made where there is none.")],
    /,
    *,
    gpu: Annotated[
        tuple[str, ...], Parameter(negative="", help="GPU key; repeat it for kernels that the first cannot run.")
    ] = ("h200",),
    first: Annotated[bool, Parameter(negative="", help="Only the first example of each folder that compiles.")] = False,
    tilelang: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            help="Also keep each kernel as this TileLang makes it, such as 0.1.9, for versus; may be repeated.",
        ),
    ] = (),
    script_deadline: Annotated[
        float, POSITIVE, Parameter(help="Seconds for a script, which runs without its kernels.")
    ] = 200.0,
    json: Json = False,
    format: TableFormat = "simple",
) -> Reply[list[AdoptedExample]]:
    """Make operators of examples: their own inputs, reference and kernel, compiled here and judged by the other verbs.

    The scripts run, as their user would run them, but on a machine without a GPU too: no kernel is launched.
    """
    found = tuple(map(gpus.find, dict.fromkeys(gpu)))
    if any(each.is_cpu for each in found):
        raise UsageError("examples are for a GPU; --gpu h200 compiles them on any machine")
    settings = Settings(budget_s=0.0)
    plan = AdoptPlan(examples.resolve(), into.resolve(), found, settings, script_deadline, first, tilelangs=tilelang)
    done = adopt_examples(plan)
    code = ExitCode.PASSED if any(each.built for each in done) else ExitCode.REJECTED
    return Reply(done, lambda: adopted.folders(done, format), code)


def _reply(
    boards: list[ForeignBoard], records: Sequence[ForeignRecord | Record], format: str
) -> Reply[list[ForeignBoard]]:
    return Reply(
        boards,
        lambda: "\n".join(board.table(each, format) for each in boards),
        exit_code_of((each.status, each.cause) for each in records),
    )
