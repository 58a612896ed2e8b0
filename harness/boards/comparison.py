"""Comparison of two measurements of one problem, or the reason why they must not be compared."""

import math
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from harness.errors import UsageError
from harness.records.base import LIBRARIES, Status
from harness.records.results import Measurement, Record
from harness.records.sustained import SustainedMeasurement, SustainedRecord

Figures = Measurement | SustainedMeasurement
Judged = Record | SustainedRecord  # of either regime; the two are never compared with each other

SIZE: Final = r"(:\d+(\.\d+)?%)?"  # of a word of --fail-on, as a regular expression
MARGIN: Final = 0.005  # two kernels closer than this are the same to a user
ANOTHER_CALL: Final = 1.25  # a baseline so much faster, by another judge, is another call; chips differ by less
MARGIN_AT_LIMIT: Final = 0.01  # two intervals of 0.4% each cannot show less
# The same kernel has another ratio to the library on another chip of the same model. Over nineteen pairs of H200s that
# share 40 rows of tuning/h200, 95 of 100 differences are within these (docs/results/between-chips.md). Both are
# relative; the second grows with a kernel's distance from the library.
CHIP_HALF_WIDTH: Final = 0.016
CHIP_HALF_WIDTH_PER_LOG: Final = 0.034


class Change(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNDECIDED = "undecided"
    INCOMPARABLE = "not compared"


class Comparison(msgspec.Struct, frozen=True):
    """``quotient`` is A's time over B's, each relative to the library: above 1, B is faster.

    ``low`` and ``high`` bound its 95% interval. All three are None if the two are not compared; ``why`` says why.
    ``notes`` are differences that a comparison tolerates. ``a`` and ``b`` are the records' ids.
    """

    gpu: str
    problem: str
    model: str
    iteration: str
    verdict: Change
    a: str | None = None
    b: str | None = None
    ratio_a: float | None = None
    ratio_b: float | None = None
    quotient: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None
    notes: tuple[str, ...] = ()


class Interval(msgspec.Struct, frozen=True):
    quotient: float
    low: float
    high: float

    def verdict(self, margin: float = MARGIN) -> Change:
        """Faster or slower if 1 is outside; the same if the whole interval is within the margin of 1."""
        if self.low > 1:
            return Change.FASTER
        if self.high < 1:
            return Change.SLOWER
        return Change.SAME if 1 - margin <= self.low and self.high <= 1 + margin else Change.UNDECIDED


def limits(said: str | None, words: str, example: str) -> dict[str, float]:
    """What --fail-on says: words, and the relative change from which each counts, such as ``slower:1%``.

    ``words`` is a regular expression of a word with its size. Raises UsageError.
    """
    found = {}
    for word in said.split(",") if said is not None else ():
        if (match := re.fullmatch(rf"\s*({words})\s*", word)) is None:
            raise UsageError(f"--fail-on '{word}' is not {example}")
        verdict, _, size = match[1].partition(":")
        found[verdict] = float(size.removesuffix("%") or 0) / 100
    return found


def shows(low: float, high: float, least: float, *, slower: bool) -> bool:
    """Whether a whole interval shows a change of this size: its near end counts."""
    return high <= 1 - least if slower else low >= 1 + least


def quotient(a: Figures, b: Figures, *, same_chip: bool) -> Interval:
    """B's ratio over A's. Independent errors of logarithms add in quadrature.

    The interval is unbounded, and so undecided, if one of theirs reaches 0.
    """
    if _reaches_0(a) or _reaches_0(b):
        return Interval(b.ratio / a.ratio, 0.0, math.inf)
    center = math.log(b.ratio / a.ratio)
    chip = chip_half_width(a, same_chip=same_chip)
    below = math.hypot(math.log(b.ratio / b.ratio_low), math.log(a.ratio_high / a.ratio), chip)
    above = math.hypot(math.log(b.ratio_high / b.ratio), math.log(a.ratio / a.ratio_low), chip)
    return Interval(math.exp(center), math.exp(center - below), math.exp(center + above))


def chip_half_width(measured: Figures, *, same_chip: bool) -> float:
    """How far another chip may move the logarithm of a ratio."""
    return 0.0 if same_chip else CHIP_HALF_WIDTH + CHIP_HALF_WIDTH_PER_LOG * abs(math.log(measured.ratio))


def compare(a: Judged, b: Judged, margin: float = MARGIN) -> Comparison:
    """Compare two records, of one iteration or of two."""
    same = Comparison(b.gpu, b.shape_key, b.model, b.iteration, Change.INCOMPARABLE, a.id, b.id)
    why = _incomparable(a, b)
    if why is not None:
        return msgspec.structs.replace(same, why=why)
    assert a.measurement is not None and b.measurement is not None
    same_chip = a.environment.device_uuid == b.environment.device_uuid
    one = Interval(1.0, 1.0, 1.0)  # a record is itself, however wide its interval
    found = one if a.id == b.id else quotient(a.measurement, b.measurement, same_chip=same_chip)
    return msgspec.structs.replace(
        same,
        verdict=found.verdict(margin),
        ratio_a=a.measurement.ratio,
        ratio_b=b.measurement.ratio,
        **msgspec.structs.asdict(found),
        notes=differences(a, b),
    )


def pair(before: Sequence[Judged], after: Sequence[Judged], margin: float = MARGIN) -> list[Comparison]:
    """Compare the last records of both sides, by GPU key, problem, model and iteration."""
    first, second = _last(before), _last(after)
    found = []
    for key in dict.fromkeys((*first, *second)):
        a, b = first.get(key), second.get(key)
        if a is not None and b is not None:
            found.append(compare(a, b, margin))
        else:
            why = f"{'B' if b is None else 'A'} has no record of it"
            one, other = (each.id if each is not None else None for each in (a, b))
            found.append(Comparison(*key, Change.INCOMPARABLE, one, other, why=why))
    return found


def differences(a: Judged, b: Judged) -> tuple[str, ...]:
    """The differences of two records besides their figures, in words."""
    ours, theirs = a.environment, b.environment
    fields = ("device", "driver", "python", "torch", "tilelang", "tvm_ffi", "image", "forced", "locked_mhz")
    found = ["another chip"] if ours.device_uuid != theirs.device_uuid else []
    found += [
        f"{name} {getattr(ours, name) or 'none'} -> {getattr(theirs, name) or 'none'}"
        for name in fields
        if getattr(ours, name) != getattr(theirs, name)
    ]
    loaded = ((name, getattr(ours, name), getattr(theirs, name)) for name in LIBRARIES)
    found += [f"{name} {one} -> {other}" for name, one, other in loaded if one and other and one != other]
    for name, one, other in (
        ("judge", ours.judge_sha256, theirs.judge_sha256),
        ("source", a.source_sha256, b.source_sha256),
        ("family", a.families_sha256, b.families_sha256),
    ):
        if one != other:
            found.append(f"{name} {one[:8]} -> {other[:8]}")
    return (*found, *_clocks(a, b))


def _clocks(a: Judged, b: Judged) -> Iterable[str]:
    ours, theirs = (_chip(each.measurement) for each in (a, b))
    if ours is not None and theirs is not None:
        (clock_a, limits_a), (clock_b, limits_b) = ours, theirs
        if clock_a != clock_b:
            yield f"SM clock {clock_a:g} -> {clock_b:g} MHz"
        if set(limits_a) != set(limits_b):
            yield f"throttled by {', '.join(limits_a) or 'nothing'} -> {', '.join(limits_b) or 'nothing'}"


def _chip(measured: Figures | None) -> tuple[float, tuple[str, ...]] | None:
    """The SM clock in MHz and the reasons for a lower one, if they were recorded."""
    if isinstance(measured, SustainedMeasurement):
        clock = measured.contestant.sm_clock_mhz
        return None if clock is None else (clock, measured.throttle)
    telemetry = measured.telemetry if measured is not None else None
    return None if telemetry is None else (telemetry.sm_clock_mhz, telemetry.throttle)


def _incomparable(a: Judged, b: Judged) -> str | None:
    if isinstance(a, SustainedRecord) != isinstance(b, SustainedRecord):
        return "different regimes: one is at equal clocks and one at the power limit"
    if a.shape_key != b.shape_key:
        return f"different problems: {a.shape_key} and {b.shape_key}"
    for side, record in (("A", a), ("B", b)):
        if record.status is not Status.PASSED:
            return f"{side} {record.status}: {record.reason}"
        if record.measurement is None:
            return f"{side} is verified only"
    assert a.measurement is not None and b.measurement is not None
    for side, measured in (("A", a.measurement), ("B", b.measurement)):
        if _reaches_0(measured):
            return f"{side} is too noisy: its interval reaches 0"
    if a.environment.device != b.environment.device:
        return f"different GPUs: {a.environment.device} and {b.environment.device}"
    if a.measurement.timer != b.measurement.timer:
        return f"different timers: {a.measurement.timer} and {b.measurement.timer}"
    one = f"{a.measurement.baseline} of torch {a.environment.torch}"
    other = f"{b.measurement.baseline} of torch {b.environment.torch}"
    if one != other:
        return f"different libraries: {one} and {other}"
    rates = sorted(map(_library_tflops, (a.measurement, b.measurement)))
    if a.environment.judge_sha256 != b.environment.judge_sha256 and rates[1] > ANOTHER_CALL * rates[0]:
        return f"different calls of {a.measurement.baseline}: {rates[0]:.4g} and {rates[1]:.4g} TFLOPS"
    return None


def _library_tflops(measured: Figures) -> float:
    return measured.baseline_tflops if isinstance(measured, Measurement) else measured.library.tflops


def _reaches_0(measured: Figures) -> bool:
    """Whether the low end has no logarithm; disturbed blocks can widen a bootstrap interval so far."""
    return measured.ratio_low <= 0


def _last(records: Sequence[Judged]) -> dict[tuple[str, str, str, str], Judged]:
    """The newest measurement of each iteration, or else its newest outcome."""
    found: dict[tuple[str, str, str, str], Judged] = {}
    for record in records:
        key = (record.gpu, record.shape_key, record.model, record.iteration)
        held = found.get(key)
        if held is None or held.measurement is None or record.measurement is not None:
            found[key] = record
    return found
