"""Verbs that look at the harness and its machine: selftest, doctor."""

from typing import Annotated, Final

from cyclopts import Parameter

from harness import doctor
from harness.boards import tables
from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.cli.app import app, emit
from harness.cli.options import Choice, check_least
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.extras import selftest
from harness.judge.facts.gpu import Gpu
from harness.machine.nvml import Device
from harness.machine.progress import console, reporting

SMALL: Final = "matmul_f32fp32_128x128x128"
LARGE: Final = "matmul_bf16fp32_4096x4096x4096"


@app.command(name="selftest")
def measure_itself(
    choice: Choice = Choice(),
    *,
    runs: Annotated[int, Parameter(help="Measurements of the library against itself, of each problem.")] = 10,
    kills: Annotated[int, Parameter(help="Runs to kill at a random moment, by SIGKILL.")] = 5,
    stops: Annotated[int, Parameter(help="Runs to stop at a random moment, by SIGINT or SIGTERM.")] = 2,
    adversaries: Annotated[
        bool, Parameter(negative="", help="Try every trick of tests/samples/evil, and no other test.")
    ] = False,
    faults: Annotated[bool, Parameter(negative="", help="Cause the faults of a GPU, and do no other test.")] = False,
    sensitivity: Annotated[
        bool, Parameter(negative="", help="Compare a kernel with one slower by --slower-by, --runs times, and no more.")
    ] = False,
    slower_by: Annotated[float, Parameter(help="By how much it is slower, of its time.")] = 0.01,
    only: Annotated[
        str | None, Parameter(help="Of the adversaries, those whose name holds one of these, separated by commas.")
    ] = None,
    pace: Annotated[bool, Parameter(help="Time the ladder against its scripts run by hand.")] = True,
) -> ExitCode:
    """Measure the harness: library against itself, killed runs, time saved; of the first problem, or of --shape."""
    if choice.iter is not None:
        raise UsageError("selftest measures iter000 and samples of its own, no other iteration; leave --iter out")
    if choice.model is not None and (adversaries or faults or sensitivity):
        raise UsageError("selftest takes samples of its own for this, no model's iterations; leave --model out")
    if only is not None and not adversaries:
        raise UsageError("--only narrows the adversaries; leave it out, or give --adversaries too")
    for name, number, least in (("runs", runs, 2 if sensitivity else 0), ("kills", kills, 0), ("stops", stops, 0)):
        check_least(name, number, least)
    if not 0 < slower_by < float("inf"):
        raise UsageError(f"--slower-by {slower_by:g} is not a number above 0")
    tree = Tree.here()
    gpu, device = gpus.resolve(choice.gpu)
    if adversaries:
        return _confront(tree, gpu, device, choice, only)
    if faults:
        return _break(tree, gpu, device, choice)
    if sensitivity:
        return _slow_down(tree, gpu, device, choice, slower_by, runs)
    iterations, _ = tree.scan(gpu.key, Selection(choice.shape, choice.model, "0"))
    if not iterations:
        raise UsageError(tables.no_iteration(gpu.key, choice.selection, "iter000"))
    first = iterations[0]
    findings: dict[str, object] = {}
    with reporting(3) as reporter:
        if kills or stops:
            broken = selftest.interruption.interrupt(tree, gpu.key, first.shape_key, kills, stops, reporter)
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
    return ExitCode.REJECTED if (kills or stops) and not broken.sound else ExitCode.PASSED


def _break(tree: Tree, gpu: Gpu, device: Device | None, choice: Choice) -> ExitCode:
    with reporting(1) as reporter:
        finding = selftest.faults.cause(tree, gpu, device, choice.shape or LARGE, reporter)
    if choice.json:
        emit(finding)
    else:
        print(selftest.faults.table(finding))
    return ExitCode.PASSED if finding.sound else ExitCode.REJECTED


def _slow_down(tree: Tree, gpu: Gpu, device: Device | None, choice: Choice, slower_by: float, runs: int) -> ExitCode:
    with reporting(1) as reporter:
        finding = selftest.sensitivity.compare(tree, gpu, device, _shape(gpu, choice), slower_by, runs, reporter)
        reporter.finished(selftest.sensitivity.line(finding))
    if choice.json:
        emit(finding)
    return ExitCode.PASSED


def _confront(tree: Tree, gpu: Gpu, device: Device | None, choice: Choice, only: str | None) -> ExitCode:
    chosen = selftest.adversaries.samples(tree.root, cpu=gpu.is_cpu, only=only or "")
    findings: list[selftest.adversaries.Finding] = []
    stopped = False
    with reporting(len(chosen)) as reporter:
        try:
            findings.extend(selftest.adversaries.confront(tree, gpu, device, _shape(gpu, choice), chosen, reporter))
        except KeyboardInterrupt:
            stopped = True
    if choice.json:
        emit(findings)
    else:
        print(selftest.adversaries.table(findings))
    if stopped:
        left = [each.path.stem for each in chosen[len(findings) :]]
        console.print(f"for the rest: --only {','.join(left)}", markup=False, soft_wrap=True)
        raise InfrastructureError(f"stopped; {len(findings)} of {len(chosen)} were tried, and nothing is recorded")
    return ExitCode.PASSED if all(each.sound for each in findings) else ExitCode.REJECTED


def _shape(gpu: Gpu, choice: Choice) -> str:
    return choice.shape or (SMALL if gpu.is_cpu else LARGE)


@app.command(name="doctor")
def examine(choice: Choice = Choice()) -> ExitCode:
    """Say what this machine has, what is missing, and what to do about it."""
    if choice.shape is not None or choice.model is not None or choice.iter is not None:
        raise UsageError("doctor looks at the machine, not at iterations; leave --shape, --model and --iter out")
    findings = doctor.examine()
    if choice.json:
        emit(findings)
    else:
        print(doctor.table(findings))
    return ExitCode.PASSED if all(each.ok for each in findings if each.needed) else ExitCode.INFRASTRUCTURE
