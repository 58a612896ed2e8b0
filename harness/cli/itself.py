"""Verbs that look at the harness and its machine: selftest, doctor."""

from typing import Annotated

from cyclopts import Parameter

from harness import doctor, gpus, selftest, tables
from harness.cli.app import app, emit
from harness.cli.options import Choice
from harness.errors import ExitCode, UsageError
from harness.progress import reporting
from harness.tree import Selection, Tree


@app.command(name="selftest")
def measure_itself(
    choice: Choice = Choice(),
    *,
    runs: Annotated[int, Parameter(help="Measurements of the library against itself, of each problem.")] = 10,
    kills: Annotated[int, Parameter(help="Runs to kill at a random moment.")] = 5,
    pace: Annotated[bool, Parameter(help="Time the ladder against its scripts run by hand.")] = True,
) -> ExitCode:
    """Measure the harness: library against itself, killed runs, time saved; of the first problem, or of --shape."""
    tree = Tree.here()
    gpu, device = gpus.resolve(choice.gpu)
    iterations, _ = tree.scan(gpu.key, Selection(choice.shape, choice.model, "0"))
    if not iterations:
        raise UsageError(f"no iter000 under tuning/{gpu.key}/ matches {tables.chosen(choice.selection)}")
    first = iterations[0]
    findings: dict[str, object] = {}
    with reporting(3) as reporter:
        if kills:
            broken = selftest.interruption.interrupt(tree, gpu.key, first.shape_key, kills, reporter)
            findings["interruption"] = broken
            reporter.finished(selftest.interruption.line(broken))
        if pace:
            timed = selftest.pace.compare(tree, gpu.key, first.shape_key, reporter)
            findings["pace"] = timed
            reporter.finished(selftest.pace.line(timed))
        if runs:
            chosen = iterations if choice.shape else iterations[:1]
            agreed = selftest.agreement.repeat(tree, gpu, device, chosen, runs, reporter)
            findings["agreement"] = agreed
    if choice.json:
        emit(findings)
    elif runs:
        print(selftest.agreement.table(agreed))
    return ExitCode.REJECTED if kills and not broken.sound else ExitCode.PASSED


@app.command(name="doctor")
def examine(choice: Choice = Choice()) -> ExitCode:
    """Say what this machine has, what is missing, and what to do about it."""
    findings = doctor.examine()
    if choice.json:
        emit(findings)
    else:
        print(doctor.table(findings))
    return ExitCode.PASSED if all(each.ok for each in findings if each.needed) else ExitCode.INFRASTRUCTURE
