"""Agreement: a library call measured against the same library call (A/A), where every interval should hold 1."""

import time
from statistics import median

import msgspec
from tabulate import tabulate

from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError
from harness.judge.candidate import Candidate, Referees, Rejection, Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.pipeline import bench, build, verify
from harness.judge.processes import start_forkserver
from harness.machine.nvml import Device
from harness.machine.progress import Reporter


class Repeat(msgspec.Struct, frozen=True):
    """One A/A measurement; the truth is a ratio of 1."""

    ratio: float
    ratio_low: float
    ratio_high: float
    device_s: float
    start_s: float  # of the contestant's process, until its kernel is built
    verify_s: float  # until both sides have the device and the trials are done

    @property
    def covers(self) -> bool:
        return self.ratio_low <= 1 <= self.ratio_high

    @property
    def half_width(self) -> float:
        return (self.ratio_high - self.ratio_low) / 2


class Finding(msgspec.Struct, frozen=True):
    """All repeats of one problem."""

    problem: str
    timer: str
    repeats: tuple[Repeat, ...]
    covered: int
    median_half_width: float
    median_device_s: float
    median_start_s: float
    median_verify_s: float
    median_ratio: float


def repeat(
    tree: Tree, gpu: Gpu, device: Device | None, iterations: list[Iteration], runs: int, reporter: Reporter
) -> list[Finding]:
    """Measure iter000, the baseline's own call, against the baseline, ``runs`` times a problem; records nothing."""
    start_forkserver(gpu, device)
    findings = []
    for iteration in iterations:
        repeats: list[Repeat] = []
        referees = Referees(tree.root, gpu)
        try:
            referees.seat(iteration.problem)
            for number in range(runs):
                reporter.doing(f"A/A {iteration.shape_key} {number + 1} of {runs}")
                repeats.append(_once(Candidate.enter(iteration, tree.root, gpu, device, Settings.of(gpu), referees)))
        finally:
            referees.leave()
        findings.append(_summary(iteration.shape_key, gpu.timer(iteration.problem), repeats))
        reporter.finished(_line(findings[-1]))
    return findings


def table(findings: list[Finding]) -> str:
    """The figures for a person."""
    return tabulate(
        [
            (
                each.problem,
                each.timer,
                f"{each.covered} of {len(each.repeats)}",
                f"{each.median_ratio:.5f}",
                f"{each.median_half_width:.3%}",
                f"{each.median_device_s:.2f}",
                f"{each.median_start_s:.3f}",
                f"{each.median_verify_s:.2f}",
            )
            for each in findings
        ],
        headers=(
            "problem",
            "timer",
            "interval covers 1",
            "median ratio",
            "half-width",
            "device s",
            "start s",
            "verify s",
        ),
        disable_numparse=True,
    )


def _once(candidate: Candidate) -> Repeat:
    """One contestant, from its start to its interval."""
    try:
        started = time.perf_counter()
        build(candidate)
        start_s = time.perf_counter() - started
        verify(candidate)
        verify_s = time.perf_counter() - started - start_s
        bench(candidate)
    except Rejection as rejection:
        raise InfrastructureError(f"{candidate.iteration}: the baseline itself was rejected: {rejection}") from None
    finally:
        candidate.leave()
    measured = candidate.measurement
    assert measured is not None
    return Repeat(
        ratio=measured.ratio,
        ratio_low=measured.ratio_low,
        ratio_high=measured.ratio_high,
        device_s=measured.seconds,
        start_s=round(start_s, 4),
        verify_s=round(verify_s, 4),
    )


def _summary(problem: str, timer: str, repeats: list[Repeat]) -> Finding:
    return Finding(
        problem=problem,
        timer=timer,
        repeats=tuple(repeats),
        covered=sum(each.covers for each in repeats),
        median_half_width=median(each.half_width for each in repeats),
        median_device_s=median(each.device_s for each in repeats),
        median_start_s=median(each.start_s for each in repeats),
        median_verify_s=median(each.verify_s for each in repeats),
        median_ratio=median(each.ratio for each in repeats),
    )


def _line(finding: Finding) -> str:
    return (
        f"A/A {finding.problem}: {finding.covered} of {len(finding.repeats)} cover 1, "
        f"half-width {finding.median_half_width:.3%}, {finding.median_device_s:.2f} s"
    )
