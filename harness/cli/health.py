"""Verbs that look at the harness and its machine: selftest, doctor, overhead, ceiling."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from harness import doctor
from harness.boards import tables
from harness.catalog import gpus
from harness.catalog.names import ordinal
from harness.catalog.tree import Tree
from harness.cli.options import GpuKey, Json, SelectionOptions, TableFormat
from harness.cli.reply import Reply, reported
from harness.errors import ExitCode, UsageError
from harness.extras import selftest
from harness.extras.ceiling.measure import DTYPES, line, measure
from harness.extras.overhead import measure as calls
from harness.extras.overhead.ways import HostTime, ways
from harness.judge.facts.gpu import Gpu
from harness.machine.nvml import Device
from harness.machine.progress import reporting
from harness.machine.ranges import NUMBER, POSITIVE
from harness.records.ceilings import CeilingRecord
from harness.runs.run import alone

SMALL: Final = "matmul_f32fp32_128x128x128"
LARGE: Final = "matmul_bf16fp32_4096x4096x4096"


class SelftestData(msgspec.Struct, frozen=True, omit_defaults=True):
    """What each part of the selftest found; a part that did not run is absent."""

    interruption: selftest.interruption.InterruptionFinding | None = None
    pace: selftest.pace.PaceFinding | None = None
    agreement: tuple[selftest.agreement.AgreementFinding, ...] | None = None
    adversaries: tuple[selftest.adversaries.AdversaryFinding, ...] | None = None
    faults: selftest.faults.FaultFinding | None = None
    sensitivity: selftest.sensitivity.SensitivityFinding | None = None


def measure_itself(
    chosen: SelectionOptions = SelectionOptions(),
    *,
    runs: Annotated[int, NUMBER, Parameter(help="Measurements of the library against itself, for each problem.")] = 10,
    kills: Annotated[int, NUMBER, Parameter(help="Runs to kill at a random moment, by SIGKILL.")] = 5,
    stops: Annotated[int, NUMBER, Parameter(help="Runs to stop at a random moment, by SIGINT or SIGTERM.")] = 2,
    adversaries: Annotated[bool, Parameter(negative="", help="Only try every trick of tests/samples/evil.")] = False,
    faults: Annotated[bool, Parameter(negative="", help="Only cause the faults of a GPU.")] = False,
    sensitivity: Annotated[
        bool, Parameter(negative="", help="Only compare a kernel with one slower by --slower-by, --runs times.")
    ] = False,
    slower_by: Annotated[float, POSITIVE, Parameter(help="By how much that kernel is slower, relative.")] = 0.01,
    only: Annotated[
        str | None, Parameter(help="Only adversaries with one of these parts in their name, separated by commas.")
    ] = None,
    gains: Annotated[bool, Parameter(help="Also measure what a rejected adversary would have gained.")] = True,
    pace: Annotated[bool, Parameter(help="Time the ladder against its scripts run by hand.")] = True,
    sustained: Annotated[
        bool, Parameter(negative="", help="The library against itself at the power limit, not at equal clocks.")
    ] = False,
) -> Reply[SelftestData]:
    """Test the harness: library against itself, killed runs, time saved; on the first problem or --shape."""
    if chosen.iter is not None:
        raise UsageError("selftest measures iter000 and samples of its own, no other iteration; leave --iter out")
    if (chosen.model or chosen.share) and (adversaries or faults or sensitivity):
        raise UsageError("selftest takes samples of its own for this; leave --model and --share out")
    if only is not None and not adversaries:
        raise UsageError("--only narrows the adversaries; leave it out, or give --adversaries too")
    if sensitivity and runs < 2:
        raise UsageError(f"--sensitivity compares runs; --runs {runs} is not a number of 2 or more")
    tree = Tree.here()
    gpu, device = gpus.resolve(chosen.gpu)
    shape = chosen.shape or (SMALL if gpu.is_cpu else LARGE)
    if adversaries:
        return _confront(tree, gpu, device, shape, only or "", gains=gains)
    if faults:
        with reporting(1) as reporter:
            caused = selftest.faults.cause(tree, gpu, device, chosen.shape or LARGE, reporter)
        return _reply(SelftestData(faults=caused), lambda: selftest.faults.table(caused), sound=caused.sound)
    if sensitivity:
        with reporting(1) as reporter:
            compared = selftest.sensitivity.compare(tree, gpu, device, shape, slower_by, runs, reporter)
            reporter.finished(selftest.sensitivity.line(compared))
        return _reply(SelftestData(sensitivity=compared))
    iterations, _ = tree.scan(gpu.key, replace(chosen.selection, iteration="0"))
    if not iterations:
        raise UsageError(tables.no_iteration(tree, gpu.key, chosen.selection, ordinal(0)))
    first = iterations[0]
    broken = timed = None
    agreed, problems = list[selftest.agreement.AgreementFinding](), tuple[str, ...]()
    with reporting(3) as reporter:
        if kills or stops:
            broken = selftest.interruption.interrupt(tree, gpu.key, first.shape_key, kills, stops, reporter)
            reporter.finished(selftest.interruption.line(broken))
        if pace:
            timed = selftest.pace.compare(tree, gpu.key, first.shape_key, reporter)
            reporter.finished(selftest.pace.line(timed))
        if runs:
            measured = iterations if chosen.shape else iterations[:1]
            found = selftest.agreement.repeat(tree, gpu, device, measured, runs, reporter, sustained=sustained)
            try:
                with alone(tree, gpu, device):
                    agreed.extend(found)
            except KeyboardInterrupt:
                done = sum(len(each.repeats) for each in agreed)
                stopped = f"tilebench: stopped after {done} of {runs * len(measured)} measurements, which the table has"
                problems = reported([stopped])
    data = SelftestData(interruption=broken, pace=timed, agreement=tuple(agreed) if runs else None)
    table = selftest.agreement.table(agreed) if agreed else ""
    return _reply(data, lambda: table, sound=broken is None or broken.sound, problems=problems)


def _confront(
    tree: Tree, gpu: Gpu, device: Device | None, shape: str, only: str, *, gains: bool
) -> Reply[SelftestData]:
    samples = selftest.adversaries.samples(tree.root, cpu=gpu.is_cpu, only=only)
    findings: list[selftest.adversaries.AdversaryFinding] = []
    problems: tuple[str, ...] = ()
    with reporting(len(samples)) as reporter:
        try:
            findings.extend(selftest.adversaries.confront(tree, gpu, device, shape, samples, reporter, gains=gains))
        except KeyboardInterrupt:
            left = ",".join(each.path.stem for each in samples[len(findings) :])
            stopped = f"tilebench: stopped; {len(findings)} of {len(samples)} were tried, and nothing is recorded"
            problems = reported([f"for the rest: --only {left}", stopped])
    return _reply(
        SelftestData(adversaries=tuple(findings)),
        lambda: selftest.adversaries.table(findings),
        sound=all(each.sound for each in findings),
        problems=problems,
    )


def _reply(
    data: SelftestData, text: Callable[[], str] = lambda: "", *, sound: bool = True, problems: tuple[str, ...] = ()
) -> Reply[SelftestData]:
    """The answer; with ``problems`` the test was stopped."""
    code = ExitCode.PASSED if sound else ExitCode.REJECTED
    return Reply(data, text, ExitCode.INFRASTRUCTURE if problems else code, problems)


def examine(chosen: SelectionOptions = SelectionOptions()) -> Reply[list[doctor.HealthFinding]]:
    """Say what this machine has, what is missing, and what to do about it."""
    if SelectionOptions(gpu=chosen.gpu, json=chosen.json) != chosen:
        raise UsageError(
            "doctor looks at the machine, not at iterations; leave --shape, --model, --iter, --share, --set out"
        )
    if chosen.gpu != gpus.AUTO:
        gpus.find(chosen.gpu)
    findings = doctor.examine(chosen.gpu)
    healthy = all(each.ok for each in findings if each.needed)
    return Reply(findings, lambda: doctor.table(findings), ExitCode.PASSED if healthy else ExitCode.INFRASTRUCTURE)


def overhead(*, gpu: GpuKey = gpus.AUTO, json: Json = False, format: TableFormat = "simple") -> Reply[list[HostTime]]:
    """Time what one call costs the host: lazy, eager and compiled kernels, every execution backend, and torch."""
    found, device = gpus.resolve(gpu)
    with reporting(len(ways())) as reporter:
        figures = calls.measure(Tree.here(), found, device, reporter)
    code = ExitCode.PASSED if any(figure.us is not None for figure in figures) else ExitCode.REJECTED
    return Reply(figures, lambda: calls.table(figures, format), code)


def ceiling(
    *,
    gpu: GpuKey = gpus.AUTO,
    dtype: Annotated[str | None, Parameter(help="Only this dtype: bfloat16, float16 or float8_e4m3fn.")] = None,
    json: Json = False,
) -> Reply[list[CeilingRecord]]:
    """Measure the power ceiling: tensor cores fed from shared memory, with nothing to move."""
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"--dtype {dtype} is not one of {', '.join(DTYPES)}")
    tree = Tree.here()
    key, device = gpus.resolve(gpu)
    with reporting(0) as reporter:
        found = measure(tree, key, device, (dtype,) if dtype else DTYPES, reporter)
    return Reply(found, lambda: "\n".join(map(line, found)))
