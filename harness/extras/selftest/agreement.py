"""Agreement: the library's call measured against itself (A/A), where every interval should hold one ratio."""

import time
from collections.abc import Iterator
from statistics import median

import msgspec

from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError
from harness.judge.candidate import Candidate, Referees, Rejection, Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import bench, build, verify
from harness.judge.processes import start_forkserver
from harness.judge.sustaining import SustainedSettings, sustain
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.machine.table import figure
from harness.machine.table import table as as_table
from harness.records.results import Measurement
from harness.records.sustained import SustainedMeasurement


class Repeat(msgspec.Struct, frozen=True):
    """One A/A measurement."""

    ratio: float
    ratio_low: float
    ratio_high: float
    device_s: float
    start_s: float  # from the start of the contestant's process until its kernel is built
    verify_s: float  # from then until the trials are done
    joules_ratio: float | None = None  # the baseline's energy over the contestant's, in the sustained regime

    @property
    def half_width(self) -> float:
        return (self.ratio_high - self.ratio_low) / 2


class AgreementFinding(msgspec.Struct, frozen=True):
    """All repeats of one problem.

    ``truth`` is what each interval should hold: 1, or the median ratio where iter000 copies what its library returns.
    ``joules_within`` is how far the ratio of both sides' energies is off at most: from 1, or from its median there.
    """

    problem: str
    timer: str
    repeats: tuple[Repeat, ...]
    covered: int
    median_half_width: float
    median_device_s: float
    median_start_s: float
    median_verify_s: float
    median_ratio: float
    median_joules_ratio: float | None = None
    joules_within: float | None = None
    truth: float = 1.0


def repeat(
    tree: Tree,
    gpu: Gpu,
    device: Device | None,
    iterations: list[Iteration],
    runs: int,
    reporter: Reporter,
    *,
    sustained: bool = False,
) -> Iterator[AgreementFinding]:
    """Measure iter000, the library's own call, ``runs`` times a problem; records nothing.

    On Ctrl-C the problem at hand is summed up from what was measured of it, before the KeyboardInterrupt goes on.
    """
    start_forkserver(gpu, device)
    for iteration in iterations:
        repeats: list[Repeat] = []
        referees = Referees(tree.root, gpu)
        try:
            referees.seat(iteration.problem)
            for number in range(runs):
                reporter.doing(f"A/A {iteration.shape_key} {number + 1} of {runs}")
                candidate = Candidate(iteration, tree.root, gpu, device, Settings.of(gpu), referees)
                repeats.append(_once(candidate, sustained=sustained))
        except KeyboardInterrupt:
            if repeats:
                yield _summary(iteration.problem, gpu.timer, repeats)
            raise
        finally:
            referees.leave()
        finding = _summary(iteration.problem, gpu.timer, repeats)
        reporter.finished(_line(finding))
        yield finding


def table(findings: list[AgreementFinding]) -> str:
    return as_table(
        findings,
        {
            "problem": lambda each: each.problem,
            "timer": lambda each: each.timer,
            "interval covers": lambda each: f"{each.truth:.5g}, {each.covered} of {len(each.repeats)}",
            "median ratio": lambda each: f"{each.median_ratio:.5f}",
            "energy": lambda each: figure(each.median_joules_ratio, ".4f"),
            "energy within": lambda each: figure(each.joules_within, ".2%"),
            "half-width": lambda each: f"{each.median_half_width:.3%}",
            "device s": lambda each: f"{each.median_device_s:.2f}",
            "start s": lambda each: f"{each.median_start_s:.3f}",
            "verify s": lambda each: f"{each.median_verify_s:.2f}",
        },
        optional=("verify s", "start s", "device s", "timer", "energy", "energy within", "median ratio"),
        cut={"problem": 22},
    )


def _once(candidate: Candidate, *, sustained: bool) -> Repeat:
    """One measurement, from the start of the contestant to the interval."""
    try:
        started = time.perf_counter()
        build(candidate)
        start_s = time.perf_counter() - started
        verify(candidate)
        verify_s = time.perf_counter() - started - start_s
        measured = sustain(candidate, None, SustainedSettings()) if sustained else bench(candidate).measurement
    except Rejection as rejection:
        raise InfrastructureError(f"{candidate.iteration}: the baseline itself was rejected: {rejection}") from None
    finally:
        candidate.leave()
    assert measured is not None
    figures = measured.ratio, measured.ratio_low, measured.ratio_high, measured.seconds
    return Repeat(*figures, round(start_s, 4), round(verify_s, 4), _joules_ratio(measured))


def _joules_ratio(measured: Measurement | SustainedMeasurement) -> float | None:
    if not isinstance(measured, SustainedMeasurement):
        return None
    library, contestant = measured.library.joules_per_launch, measured.contestant.joules_per_launch
    return library / contestant if library and contestant else None


def _summary(problem: Problem, timer: str, repeats: list[Repeat]) -> AgreementFinding:
    from baselines import library

    medians = {
        f"median_{name}": median(getattr(each, name) for each in repeats)
        for name in ("half_width", "device_s", "start_s", "verify_s", "ratio")
    }
    copies = library(problem).returns
    truth = medians["median_ratio"] if copies else 1.0
    joules = [each.joules_ratio for each in repeats if each.joules_ratio is not None]
    usual = median(joules) if joules and copies else 1.0
    return AgreementFinding(
        problem=problem.shape_key,
        timer=timer,
        repeats=tuple(repeats),
        covered=sum(each.ratio_low <= truth <= each.ratio_high for each in repeats),
        **medians,
        median_joules_ratio=median(joules) if joules else None,
        joules_within=max((abs(each / usual - 1) for each in joules), default=None),
        truth=truth,
    )


def _line(finding: AgreementFinding) -> str:
    energy = "" if finding.joules_within is None else f", joules per launch within {finding.joules_within:.2%}"
    return (
        f"A/A {finding.problem}: {finding.covered} of {len(finding.repeats)} cover {finding.truth:.5g}, "
        f"half-width {finding.median_half_width:.3%}, {finding.median_device_s:.2f} s{energy}"
    )
