"""The roofline of a problem: the datasheet's limits, what this machine reached, and where the iterations lie."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from harness.catalog import gpus
from harness.extras.profile.figures import FIGURES
from harness.extras.report.gather import Report, ReportEntry, Shape, Sheet
from harness.records.ceilings import newest
from harness.records.profiles import ProfileOutcome, ProfileRecord

DATASHEET: Final = "datasheet"
REACHED: Final = "reached here"
POWER: Final = "power ceiling"
_MARGIN: Final = 4.0  # the axis ends this factor beyond points and ridges


@dataclass(frozen=True, slots=True)
class Roof:
    """A compute limit in TFLOPS of the problem's input dtype, and a memory limit in GB/s.

    ``kind`` is DATASHEET for the rates of gpus.toml, or REACHED for the most that any record of this device and dtype
    shows. It is POWER for what the power limit allows with nothing to move. ``compute_by`` and ``memory_by`` name the
    source.
    """

    kind: str
    tflops: float
    gbs: float
    compute_by: str
    memory_by: str

    @property
    def ridge(self) -> float:
        """The FLOP per byte above which compute is the roof."""
        return self.tflops * 1e3 / self.gbs

    def at(self, intensity: float) -> float:
        return min(self.tflops, intensity * self.gbs / 1e3)


@dataclass(frozen=True, slots=True)
class Point:
    """An iteration: FLOP per byte of device memory, and TFLOPS in its timed launches.

    ``counted`` says that ncu counted the bytes. Otherwise each tensor counts once, which is the least possible.
    """

    entry: ReportEntry
    intensity: float
    tflops: float
    counted: bool


@dataclass(frozen=True)
class Roofline:
    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]

    @property
    def span(self) -> tuple[float, float]:
        """The ends of the axis, in FLOP per byte."""
        places = [point.intensity for point in self.points] + [roof.ridge for roof in self.roofs]
        return min(places) / _MARGIN, max(places) * _MARGIN


def roofline(report: Report, shape: Shape, sheet: Sheet) -> Roofline | None:
    """None if nothing is measured, and on a CPU, where caches serve what would come from memory."""
    points = tuple(_points(sheet))
    if not points or sheet.board.environment is None or report.gpu.is_cpu:
        return None
    device, dtype = sheet.board.environment.device, shape.problem.input
    alike = [entry for entry in report.entries if entry.record and entry.record.environment.device == device]
    roofs = []
    gpu = gpus.table().get(gpus.key_of(device) or "")  # the device's own, even if another key was forced on it
    peak_tflops = gpu.peak_tflops(shape.problem) if gpu else None
    if gpu and peak_tflops and gpu.bandwidth_gbs:
        roofs.append(Roof(DATASHEET, peak_tflops, gpu.bandwidth_gbs, DATASHEET, DATASHEET))
    compute = max(_rates(entry for entry in alike if entry.iteration.problem.input == dtype), default=None)
    memory = max(_bandwidths(alike), default=None)
    if compute and memory and min(compute[0], memory[0]) > 0:
        roofs.append(Roof(REACHED, compute[0], memory[0], compute[1], memory[1]))
    ceiling = newest(report.ceilings, dtype, sheet.board.environment)
    if ceiling and roofs:
        spent = f"{ceiling.power_w:.0f} W at {ceiling.sm_clock_mhz:.0f} MHz, {ceiling.pj_per_flop:.2f} pJ per flop"
        if ceiling.borrowed(sheet.board.environment):
            spent += ", another chip"
        roofs.append(Roof(POWER, ceiling.tflops, roofs[0].gbs, spent, roofs[0].memory_by))
    return Roofline(tuple(roofs), points)


def _points(sheet: Sheet) -> Iterator[Point]:
    for entry in sheet.ladder:
        if not entry.row.tflops or entry.row.tflops < 0 or entry.failed:
            continue
        problem, counted = entry.iteration.problem, dram_bytes(entry.profile)
        yield Point(entry, problem.flops / (counted or problem.bytes), entry.row.tflops, counted is not None)


def dram_bytes(profile: ProfileRecord | None) -> float | None:
    """The bytes that ncu counted from and to device memory; None if it counted none."""
    if profile is None or profile.outcome is not ProfileOutcome.PROFILED:
        return None
    moved = [profile.metrics.get(FIGURES[name].metric) for name in ("dram_read_bytes", "dram_write_bytes")]
    counted = sum(each.value for each in moved if each) if all(moved) else 0.0
    return counted if counted > 0 else None


def _rates(entries: Iterable[ReportEntry]) -> Iterator[tuple[float, str]]:
    """The TFLOPS of kernels and baselines, with their names."""
    for entry in entries:
        if (measured := entry.measured) is not None and not entry.failed:
            yield measured.tflops, f"{entry.row.problem} {entry.row.iteration}"
            yield measured.baseline_tflops, f"{entry.row.problem} {measured.baseline}"


def _bandwidths(entries: Iterable[ReportEntry]) -> Iterator[tuple[float, str]]:
    """GB/s with names: each tensor once over the time of a launch, or ncu's bytes over the time under ncu."""
    for entry in entries:
        if entry.measured is None or entry.failed:
            continue
        name = f"{entry.row.problem} {entry.row.iteration}"
        if entry.row.gbs:
            yield entry.row.gbs, name
        counted = dram_bytes(entry.profile)
        if counted and entry.profile and entry.profile.duration_us:
            yield counted / (entry.profile.duration_us * 1e3), f"{name}, under ncu"
