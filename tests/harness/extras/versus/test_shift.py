"""The statistics of two environments: no false alarm in 95 of 100 tables of 300 rows, and a change of 1% is found."""

import math
import random
from collections.abc import Sequence

import pytest

from harness.extras.versus.shift import FALSE_ALARMS, Shift, direction, error_of, pooled, shift, widened
from harness.judge.statistics import PROCESS_HALF_WIDTH, Estimate, estimate, interval
from harness.records.results import BlockPair

PLACEMENTS = 8
BETWEEN_PLACEMENTS = 0.002  # relative standard deviation
PROCESSES = PROCESS_HALF_WIDTH / 1.96


def measured(dice: random.Random, truth: float) -> Estimate:
    """One measurement by a fresh pair of processes, with a 95% interval that is exact but for its rounding up."""
    constant = dice.gauss(math.log(truth), PROCESSES)
    center, half = interval([constant + dice.gauss(0, BETWEEN_PLACEMENTS) for _ in range(PLACEMENTS)])
    half = math.hypot(half, PROCESS_HALF_WIDTH)
    return Estimate(math.exp(center), math.exp(center - half), math.exp(center + half))


def row(dice: random.Random, truth: float, error: float) -> Shift:
    """A row as ``pairing.measure`` makes it: measured again unless it is the same at once."""
    found = [widened(measured(dice, truth), PLACEMENTS, error)]
    if shift(found) is not Shift.SAME:
        found.append(widened(measured(dice, truth), PLACEMENTS, error))
    return shift(found)


def alarms(tables: int, rows: int, error: float) -> float:
    """The share of tables without a change that hold a row called faster or slower."""
    dice = random.Random(24)
    wrong = (Shift.FASTER, Shift.SLOWER)
    return sum(any(row(dice, 1, error) in wrong for _ in range(rows)) for _ in range(tables)) / tables


def test_a_table_of_300_rows_without_a_change_has_no_false_alarm_in_95_of_100_runs() -> None:
    assert alarms(100, 300, error_of(300)) <= FALSE_ALARMS


def test_intervals_of_95_percent_would_not_do() -> None:
    """The same tables without the correction: the test above fails when it is lost."""
    assert alarms(20, 300, 0.05) > 2 * FALSE_ALARMS


@pytest.mark.parametrize("rows", [40, 300])
def test_a_change_of_1_percent_is_found_in_20_of_20(rows: int) -> None:
    dice, error = random.Random(24), error_of(rows)
    assert [row(dice, 0.99, error) for _ in range(20)] == [Shift.SLOWER] * 20
    assert [row(dice, 1.01, error) for _ in range(20)] == [Shift.FASTER] * 20


def test_the_correction_grows_with_the_table() -> None:
    assert (error_of(1), error_of(40)) == pytest.approx((0.05, 0.05))
    assert error_of(300) == pytest.approx(math.sqrt(2 * FALSE_ALARMS / 300))
    found = Estimate(1.0, 0.99, 1.02)
    assert widened(found, PLACEMENTS, 0.05) == found
    wider = widened(found, PLACEMENTS, error_of(300))
    # Student's t with 7 degrees of freedom: 2.3646 for 95%, 3.0564 for 98.174%.
    assert (1 - wider.low) / 0.01 == pytest.approx(3.056 / 2.365, rel=0.01)
    assert (wider.high - 1) / 0.02 == pytest.approx(3.056 / 2.365, rel=0.01)


FASTER, SLOWER, LEVEL, WIDE = (
    Estimate(1.02, 1.015, 1.025),
    Estimate(0.98, 0.975, 0.985),
    Estimate(1.001, 0.997, 1.005),
    Estimate(1.02, 0.9, 1.1),
)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([FASTER, FASTER], Shift.FASTER),
        ([SLOWER, SLOWER], Shift.SLOWER),
        ([FASTER], Shift.UNDECIDED),  # one measurement is never enough
        ([FASTER, SLOWER], Shift.SAME),  # two small differences that cancel
        ([SLOWER, LEVEL], Shift.UNDECIDED),
        ([LEVEL], Shift.SAME),
        ([WIDE], Shift.UNDECIDED),
        ([WIDE, LEVEL], Shift.UNDECIDED),
    ],
)
def test_both_measurements_must_agree(found: Sequence[Estimate], verdict: Shift) -> None:
    assert shift(found) is verdict


def test_a_pooled_interval_is_narrower_than_its_parts_and_holds_their_mean() -> None:
    both = pooled([FASTER, LEVEL])
    assert both.ratio == pytest.approx(math.sqrt(1.02 * 1.001))
    assert both.high - both.low < max(each.high - each.low for each in (FASTER, LEVEL))
    assert direction(both) == 1


def test_the_judges_own_estimate_gives_no_more_false_alarms() -> None:
    """The bootstrap over blocks in the place of an exact interval, in one table of 40 rows."""
    dice = random.Random(24)

    def blocks(truth: float) -> list[BlockPair]:
        constant = truth * (1 + dice.gauss(0, PROCESSES))
        shifts = [constant * (1 + dice.gauss(0, BETWEEN_PLACEMENTS)) for _ in range(PLACEMENTS)]
        return [
            BlockPair(number, each * (1 + dice.gauss(0, 0.006)), 1.0)
            for number, each in enumerate(shifts)
            for _ in range(6)
        ]

    error = error_of(40)
    for truth, wanted in ((1.0, {Shift.SAME, Shift.UNDECIDED}), (0.98, {Shift.SLOWER})):
        rows = [[widened(estimate(blocks(truth)), PLACEMENTS, error) for _ in range(2)] for _ in range(20)]
        assert {shift(each) for each in rows} <= wanted
