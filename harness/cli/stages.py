"""Verbs of the pipeline: check, verify, bench; build has a module of its own."""

from dataclasses import replace

import msgspec

from harness.authoring import scaffold
from harness.boards import tables
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.app import app
from harness.cli.notebook import leaderboards
from harness.cli.options import BuildOptions, MeasureOptions, SelectionOptions
from harness.cli.reply import Reply
from harness.errors import UsageError
from harness.machine.progress import console, reporting
from harness.records.base import Stage, Status
from harness.records.results import Record
from harness.runs.run import Plan, Results, run


class RunData(msgspec.Struct, frozen=True):
    """One record per iteration; ``reused`` of them were recorded before."""

    records: tuple[Record, ...]
    reused: int


@app.command
def check(chosen: SelectionOptions = SelectionOptions()) -> Reply[RunData]:
    """Check the contract on the sources; imports nothing."""
    return _reply(carry_out(chosen, Stage.CONTRACT))


@app.command
def verify(chosen: SelectionOptions = SelectionOptions(), how: MeasureOptions = MeasureOptions()) -> Reply[RunData]:
    """Compare iterations with the reference, in random, exact and refreshed trials; times nothing."""
    return _reply(carry_out(chosen, Stage.VERIFY, how))


@app.command
def bench(chosen: SelectionOptions = SelectionOptions(), how: MeasureOptions = MeasureOptions()) -> Reply[RunData]:
    """Verify iterations, time them against the library, and print the leaderboard."""
    results = carry_out(chosen, Stage.BENCH, how)
    key = results.records[0].gpu if results.records else chosen.key
    return replace(_reply(results), text=lambda: leaderboards(key, chosen).text())


def carry_out(chosen: SelectionOptions, upto: Stage, how: BuildOptions = MeasureOptions()) -> Results:
    """Run the chosen iterations up to a stage, with progress on stderr."""
    tree = Tree.here()
    needs_device = upto in (Stage.VERIFY, Stage.BENCH)
    force = isinstance(how, MeasureOptions) and how.force
    gpu, device = gpus.resolve(chosen.gpu, force=force) if needs_device else (gpus.find(chosen.key), None)
    if needs_device and chosen.gpu == gpus.AUTO:
        name = device.name if device else "no NVIDIA GPU found, the CPU runs the pipeline"
        console.print(f"GPU key {gpu.key}: {name}", markup=False)
    if needs_device and (written := scaffold.starter(tree, gpu)):
        console.print(f"tuning/{gpu.key}/ had no iterations; it now holds a starter ladder of {len(written)} files")
    iterations, misplaced = tree.scan(gpu.key, chosen.selection)
    if not iterations and not misplaced:
        raise UsageError(tables.no_iteration(gpu.key, chosen.selection))
    plan = Plan(
        tree=tree,
        gpu=gpu,
        device=device,
        iterations=tuple(iterations),
        misplaced=tuple(misplaced),
        upto=upto,
        settings=how.settings(gpu),
        again=how.again,
        copies=upto is Stage.BENCH,
    )
    with reporting(len(iterations)) as reporter:
        return run(plan, reporter)


def outcome(results: Results) -> str:
    """How many iterations passed, in one line."""
    passed = sum(record.status is Status.PASSED for record in results.records)
    reused = f", {results.reused} of them recorded before" if results.reused else ""
    return f"{passed} of {len(results.records)} passed{reused}"


def problems(results: Results) -> tuple[str, ...]:
    """What the run has already said of files that are no iterations."""
    return tuple(each.reason for each in results.misplaced)


def _reply(results: Results) -> Reply[RunData]:
    data = RunData(tuple(results.records), results.reused)
    return Reply(data, lambda: outcome(results), results.exit_code, problems(results))
