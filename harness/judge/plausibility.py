"""Whether a measurement can be true: the roofline, the referee's clock, and the baseline measured alone."""

from typing import Final

from harness.judge.facts.device_rules import rules_of
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.records.results import Measurement
from harness.records.sustained import SustainedMeasurement

ROOFLINE_GRACE: Final = 0.85  # a chip may clock above the datasheet's peak
# How much slower the baseline may be beside a contestant than alone. Over 252 honest iterations on an H200, blocks of
# one launch (about 20 ms) slowed by at most 4.7%, multi-launch blocks by at most 0.7%.
SLOWDOWN_OF_ONE_LAUNCH: Final = 0.06
SLOWDOWN_OF_SEVERAL: Final = 0.02
# How far above the paired interval a sustained ratio may be, beyond what the clocks explain. Phases launch on the same
# inputs many times, so a kernel that remembers could skip work there. What one honestly gains is clock, by power it
# saves: a kernel at a quarter of the library's speed came out 17% above its paired ratio. Beyond a higher clock than
# the library's, 411 measurements on H200s gained 3.1% over the paired ratio at most. One that skips a launch in twenty
# gains 5%.
MOST_SUSTAINED_GAIN: Final = 0.03


def speed(time_ms: float, problem: Problem, gpu: Gpu) -> str | None:
    """The complaint, in words, if a launch is faster than the roofline; None if not."""
    floor_ms = gpu.floor_ms(problem)
    if time_ms >= floor_ms * ROOFLINE_GRACE:
        return None
    return f"{time_ms:.4g} ms is under the roofline's {floor_ms:.4g} ms; no launch can be that fast"


def time(measured: Measurement, gpu: Gpu) -> str | None:
    """The complaint if the referee's clock contradicts the contestant's.

    On a CPU others delay both sides, so only what the contestant is later than the baseline counts.
    """
    assert measured.late_ms is not None
    allowed = rules_of(gpu).lateness
    excused_ms = max(0.0, measured.baseline_late_ms or 0.0) if gpu.is_cpu else 0.0
    over_ms = measured.late_ms - excused_ms
    block_ms = measured.time_ms * measured.launches
    if over_ms <= allowed.ms + allowed.of_block * block_ms + allowed.of_launch * measured.time_ms:
        return None
    return f"blocks said to take {block_ms:.3g} ms took {over_ms:.3g} ms longer by the referee's clock"


def sustained(measured: SustainedMeasurement, paired: Measurement) -> str | None:
    """The complaint if the sustained ratio is farther above the paired one than the clocks can explain."""
    if measured.ratio <= most_sustained(measured, paired.ratio_high):
        return None
    return f"its ratio to the library is {measured.ratio:.3f} alone and {paired.ratio:.3f} in turns"


def most_sustained(measured: SustainedMeasurement, paired_ratio: float) -> float:
    """The largest sustained ratio that a paired one and the clocks explain."""
    mhz, library_mhz = measured.contestant.sm_clock_mhz, measured.library.sm_clock_mhz
    clocks = max(1.0, mhz / library_mhz) if mhz and library_mhz else 1.0
    return paired_ratio * clocks * (1 + MOST_SUSTAINED_GAIN)


def baseline(measured: Measurement) -> str | None:
    """The complaint if the baseline sped up after the contestant's process ended."""
    assert measured.baseline_alone_ms is not None
    slower = measured.baseline_ms / measured.baseline_alone_ms - 1
    if slower <= (SLOWDOWN_OF_ONE_LAUNCH if measured.baseline_launches == 1 else SLOWDOWN_OF_SEVERAL):
        return None
    return f"while it was alive the baseline took {slower:.0%} longer than after its process had ended"
