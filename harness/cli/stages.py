"""Verbs of the straight line: check, verify, bench; build has a module of its own."""

from harness.authoring import scaffold
from harness.boards import tables
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.app import app, emit
from harness.cli.notebook import print_boards
from harness.cli.options import Building, Choice, Manner
from harness.errors import ExitCode, UsageError
from harness.machine.progress import console, reporting
from harness.records.base import Stage
from harness.runs.run import Plan, Results, run


@app.command
def check(choice: Choice = Choice()) -> ExitCode:
    """Check the contract on the sources, without importing them."""
    return _report(carry_out(choice, Stage.CONTRACT), choice)


@app.command
def verify(choice: Choice = Choice(), manner: Manner = Manner()) -> ExitCode:
    """Prove iterations right: random, exact and refreshed trials against the reference."""
    return _report(carry_out(choice, Stage.VERIFY, manner), choice)


@app.command
def bench(choice: Choice = Choice(), manner: Manner = Manner()) -> ExitCode:
    """Verify and time iterations against the library, and print the leaderboard."""
    results = carry_out(choice, Stage.BENCH, manner)
    if choice.json:
        return _report(results, choice)
    key = results.records[0].gpu if results.records else choice.key
    print_boards(key, choice)
    return results.exit_code


def carry_out(choice: Choice, upto: Stage, manner: Manner | Building = Manner()) -> Results:
    """Run the chosen iterations up to a stage, with progress on stderr."""
    tree = Tree.here()
    needs_device = upto in (Stage.VERIFY, Stage.BENCH)
    force = isinstance(manner, Manner) and manner.force
    gpu, device = gpus.resolve(choice.gpu, force=force) if needs_device else (gpus.find(choice.key), None)
    if needs_device and choice.gpu == gpus.AUTO:
        console.print(
            f"GPU key {gpu.key}: {device.name if device else 'no NVIDIA GPU found, the CPU runs the pipeline'}"
        )
    if needs_device and (written := scaffold.starter(tree, gpu)):
        console.print(
            f"tuning/{gpu.key}/ had no iterations; a starter ladder of {len(written)} files was written there"
        )
    iterations, misplaced = tree.scan(gpu.key, choice.selection)
    if not iterations and not misplaced:
        raise UsageError(tables.no_iteration(gpu.key, choice.selection))
    plan = Plan(
        tree=tree,
        gpu=gpu,
        device=device,
        iterations=tuple(iterations),
        misplaced=tuple(misplaced),
        upto=upto,
        settings=manner.settings(gpu),
        again=manner.again,
        ceilings=upto is Stage.BENCH,
    )
    with reporting(len(iterations)) as reporter:
        return run(plan, reporter)


def _report(results: Results, choice: Choice) -> ExitCode:
    if choice.json:
        emit({"records": results.records, "misplaced": [each.reason for each in results.misplaced]})
    else:
        passed = sum(record.status == "passed" for record in results.records)
        reused = f", {results.reused} of them recorded before" if results.reused else ""
        print(f"{passed} of {len(results.records)} passed{reused}")
    return results.exit_code
