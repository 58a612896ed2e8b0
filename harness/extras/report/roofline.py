"""The roofline of a problem: what the datasheet allows, what this machine reached, and where the iterations lie."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from harness.catalog import gpus
from harness.extras.profile.figures import FIGURES
from harness.extras.report.gather import Entry, Report, Shape, Sheet
from harness.records.profiles import ProfileOutcome, ProfileRecord

DATASHEET: Final = "datasheet"
REACHED: Final = "reached here"
_ROOM: Final = 4.0  # what the axis shows beyond points and ridges, as a factor


@dataclass(frozen=True, slots=True)
class Roof:
    """Two ceilings of one kind: TFLOPS of the problem's input dtype, and GB/s of device memory.

    ``kind`` is DATASHEET, the rates of gpus.toml, or REACHED, the most that any record of this device and dtype shows:
    no ceiling of the hardware, but what is known to be possible. ``compute_by`` and ``memory_by`` say of what.
    """

    kind: str
    tflops: float
    gbs: float
    compute_by: str
    memory_by: str

    @property
    def ridge(self) -> float:
        """FLOP per byte from which on compute is the roof."""
        return self.tflops * 1e3 / self.gbs

    def at(self, intensity: float) -> float:
        return min(self.tflops, intensity * self.gbs / 1e3)


@dataclass(frozen=True, slots=True)
class Point:
    """An iteration: FLOP per byte of device memory, and TFLOPS while it was timed.

    Bytes are those that ncu counted where the source is profiled; else each tensor counts once, the least there is.
    """

    entry: Entry
    intensity: float
    tflops: float
    counted: bool


@dataclass(frozen=True)
class Roofline:
    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]

    @property
    def span(self) -> tuple[float, float]:
        """FLOP per byte, from and to."""
        places = [point.intensity for point in self.points] + [roof.ridge for roof in self.roofs]
        return min(places) / _ROOM, max(places) * _ROOM


def roofline(report: Report, shape: Shape, sheet: Sheet) -> Roofline | None:
    """None where nothing is measured, and on a CPU, whose caches hold what would have to come from memory."""
    points = tuple(_points(sheet))
    if not points or sheet.board.environment is None or report.gpu.is_cpu:
        return None
    device, dtype = sheet.board.environment.device, shape.problem.input
    alike = [entry for entry in report.entries if entry.record and entry.record.environment.device == device]
    roofs = []
    gpu = gpus.table().get(gpus.key_of(device) or "")  # that of the device, where another key was forced on it
    peak_tflops = gpu.peak_tflops(shape.problem) if gpu else None
    if gpu and peak_tflops and gpu.bandwidth_gbs:
        roofs.append(Roof(DATASHEET, peak_tflops, gpu.bandwidth_gbs, DATASHEET, DATASHEET))
    compute = max(_rates(entry for entry in alike if entry.iteration.problem.input == dtype), default=None)
    memory = max(_bandwidths(alike), default=None)
    if compute and memory and min(compute[0], memory[0]) > 0:
        roofs.append(Roof(REACHED, compute[0], memory[0], compute[1], memory[1]))
    return Roofline(tuple(roofs), points)


def _points(sheet: Sheet) -> Iterator[Point]:
    for entry in sheet.ladder:
        if not entry.row.tflops or entry.row.tflops < 0 or entry.failed:
            continue
        problem, counted = entry.iteration.problem, dram_bytes(entry.profile)
        yield Point(entry, problem.flops / (counted or problem.bytes), entry.row.tflops, counted is not None)


def dram_bytes(profile: ProfileRecord | None) -> float | None:
    """What ncu counted from and to device memory; None where it did not count, or counted nothing."""
    if profile is None or profile.outcome is not ProfileOutcome.PROFILED:
        return None
    moved = [profile.metrics.get(FIGURES[name].metric) for name in ("dram_read_bytes", "dram_write_bytes")]
    counted = sum(each.value for each in moved if each) if all(moved) else 0.0
    return counted if counted > 0 else None


def _rates(entries: Iterable[Entry]) -> Iterator[tuple[float, str]]:
    """TFLOPS of kernels and baselines."""
    for entry in entries:
        measured = entry.record.measurement if entry.record and not entry.failed else None
        if measured is not None:
            yield measured.tflops, f"{entry.row.problem} {entry.row.iteration}"
            yield measured.baseline_tflops, f"{entry.row.problem} {measured.baseline}"


def _bandwidths(entries: Iterable[Entry]) -> Iterator[tuple[float, str]]:
    """GB/s: each tensor once over the time of a launch, or what ncu counted over the time it took there."""
    for entry in entries:
        measured = entry.record.measurement if entry.record and not entry.failed else None
        if measured is None:
            continue
        name = f"{entry.row.problem} {entry.row.iteration}"
        if measured.time_ms > 0:
            yield entry.iteration.problem.bytes / (measured.time_ms * 1e6), name
        counted = dram_bytes(entry.profile)
        if counted and entry.profile and entry.profile.duration_us:
            yield counted / (entry.profile.duration_us * 1e3), f"{name}, under ncu"
