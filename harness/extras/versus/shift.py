"""What two measurements of a row say of two environments: pure statistics.

A row has changed if two measurements agree on the side. Each has processes of its own, and the environments stand in
swapped places. One measurement of an unchanged row errs to a given side with half of its error. So both err to the same
side with ``error**2 / 2``. By Bonferroni's bound a table of n rows then holds a false alarm with at most n times that.
``error_of`` chooses the error for which this is FALSE_ALARMS. ``widened`` brings an interval from 95% to it.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from harness.judge.statistics import CONFIDENCE, Estimate, student_t
from harness.records.results import Measurement

FALSE_ALARMS: Final = 0.05  # of all tables without a change, the share that may hold a row that is called changed
LEAST: Final = 1e-9  # stands for an end that noise has taken to zero or below
RESOLUTION: Final = 0.01  # rows are the same if the whole interval is this close to 1


class Shift(StrEnum):
    """What the new environment did to a row."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    BROKEN = "broken"
    FIXED = "fixed"
    FAILS = "fails"  # in both
    UNDECIDED = "undecided"


def error_of(rows: int) -> float:
    """The two-sided error of one measurement in a table of so many rows; at most that of a 95% interval."""
    return min(1 - CONFIDENCE, math.sqrt(2 * FALSE_ALARMS / max(1, rows)))


def widened(found: Estimate, placements: int, error: float) -> Estimate:
    """An estimate's interval, from 95% to this error, by Student's t over its placements."""
    degrees = max(1, placements - 1)
    factor = student_t(degrees, 1 - error) / student_t(degrees)
    low, high = (found.ratio + (end - found.ratio) * factor for end in (found.low, found.high))
    return Estimate(found.ratio, low, high)


def of_measurement(measured: Measurement, *, swapped: bool, error: float) -> Estimate:
    """The old environment's time over the new one's, with its widened interval."""
    found = Estimate(measured.ratio, measured.ratio_low, measured.ratio_high)
    wide = widened(found, measured.placements, error)
    return _inverse(wide) if swapped else wide


def direction(found: Estimate) -> int:
    """1 if the whole interval says faster, -1 if it says slower, else 0."""
    return (found.low > 1) - (found.high < 1)


def pooled(found: Sequence[Estimate]) -> Estimate:
    """The geometric mean of independent estimates of one ratio, with its interval."""
    center = sum(math.log(each.ratio) for each in found) / len(found)
    below, above = (math.hypot(*(math.log(end(each)) for each in found)) / len(found) for end in (_below, _above))
    return Estimate(math.exp(center), math.exp(center - below), math.exp(center + above))


def quotient(one: Estimate, other: Estimate) -> Estimate:
    """One ratio over another that was measured by itself, with its interval."""
    inverse = _inverse(other)
    below, above = ((math.log(end(one)), math.log(end(inverse))) for end in (_below, _above))
    center = one.ratio * inverse.ratio
    return Estimate(center, center * math.exp(-math.hypot(*below)), center * math.exp(math.hypot(*above)))


def shift(found: Sequence[Estimate]) -> Shift:
    """What the measurements of one row say, one or two of them."""
    ways = {direction(each) for each in found}
    if len(found) > 1 and ways in ({1}, {-1}):
        return Shift.FASTER if ways == {1} else Shift.SLOWER
    both = pooled(found)
    near = both.low >= 1 - RESOLUTION and both.high <= 1 + RESOLUTION
    return Shift.SAME if near and (ways == {0} or len(found) > 1) else Shift.UNDECIDED


def _below(found: Estimate) -> float:
    return found.ratio / max(found.low, LEAST)


def _above(found: Estimate) -> float:
    return found.high / found.ratio


def _inverse(found: Estimate) -> Estimate:
    return Estimate(1 / found.ratio, 1 / found.high, 1 / max(found.low, LEAST))
