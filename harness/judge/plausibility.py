"""Whether a measurement can be true: the roofline, the referee's clock, and the baseline without its neighbour."""

import math
from dataclasses import dataclass
from typing import Final

from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.records.results import Measurement

ROOFLINE_GRACE: Final = 0.85  # clocks can be above those of the datasheet's peak
# By "a block is one launch". What a neighbour did to the baseline on an H200 was 4.7% at most there, in launches of
# some 20 ms, and else 0.7%, over 252 honest iterations.
SABOTAGE_ALLOWANCE: Final = {True: 0.06, False: 0.02}


@dataclass(frozen=True, slots=True)
class Lateness:
    """By how much a contestant's blocks may be later than a baseline's by the second clock.

    ``of_lead_in`` is a part of one launch: the first of a block, which is not timed, finds caches cold. Of a baseline's
    own lateness ``most_ms`` are allowed for: more may be another's work.
    """

    ms: float
    of_block: float
    of_lead_in: float
    most_ms: float


# By "is a CPU", where others use the same cores. The time in which a stopped process wakes differs between two of them:
# on an H200 2 of 1054 honest measurements were later than this, by 0.28 ms at most; ``run`` measures those once more.
LATENESS: Final = {True: Lateness(1.0, 0.1, 0.5, math.inf), False: Lateness(0.2, 0.01, 0.1, 1.5)}


def speed(measured: Measurement, problem: Problem, gpu: Gpu) -> str | None:
    """What is wrong with it, in words, where it is faster than the roofline lets anything be."""
    floor_ms = gpu.floor_ms(problem)
    if measured.time_ms >= floor_ms * ROOFLINE_GRACE:
        return None
    return f"{measured.time_ms:.4g} ms is under the roofline's {floor_ms:.4g} ms; no launch can be that fast"


def time(measured: Measurement, gpu: Gpu) -> str | None:
    """The same, where the referee's clock does not agree with the contestant's as it does with the baseline's."""
    assert measured.late_ms is not None and measured.baseline_late_ms is not None
    allowed = LATENESS[gpu.is_cpu]
    over_ms = measured.late_ms - min(max(0.0, measured.baseline_late_ms), allowed.most_ms)
    block_ms = measured.time_ms * measured.launches
    if over_ms <= allowed.ms + allowed.of_block * block_ms + allowed.of_lead_in * measured.time_ms:
        return None
    return f"blocks said to take {block_ms:.3g} ms took {over_ms:.3g} ms longer by the referee's clock"


def baseline(measured: Measurement) -> str | None:
    """The same, where the baseline became much faster when the contestant's process had ended."""
    assert measured.baseline_alone_ms is not None
    slower = measured.baseline_ms / measured.baseline_alone_ms - 1
    if slower <= SABOTAGE_ALLOWANCE[measured.baseline_launches == 1]:
        return None
    return f"while it was alive the baseline took {slower:.0%} longer than after its process had ended"
