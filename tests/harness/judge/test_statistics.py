"""The interval covers the truth as often as it says, also where a placement shifts all of its rounds."""

import random

import pytest

from harness.judge.candidate import Settings
from harness.judge.statistics import PROCESS_HALF_WIDTH, estimate, student_t
from harness.records.results import BlockPair

# 97.5% quantiles of Student's t; NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 7: 2.365, 10: 2.228, 20: 2.086, 30: 2.042, 100: 1.984}


@pytest.mark.parametrize(("degrees", "quantile"), STUDENT.items())
def test_student_t_is_the_tables(degrees: int, quantile: float) -> None:
    assert student_t(degrees) == pytest.approx(quantile, rel=0.002 if degrees > 3 else 0.006)


def measure(
    dice: random.Random, truth: float, placements: int, rounds: int, between: float, within: float, processes: float = 0
) -> list[BlockPair]:
    """A paired measurement of ``truth``, shifted by the pair of processes, each placement and each round."""
    blocks = []
    constant = dice.gauss(0, processes)
    for placement in range(placements):
        shift = constant + dice.gauss(0, between)
        for number in range(rounds):
            clock = 1 + 0.05 * number / rounds  # both sides see it
            ratio = truth * (1 + shift + dice.gauss(0, within))
            blocks.append(BlockPair(placement, clock * truth, clock * truth / ratio))
    return blocks


def coverage(placements: int, between: float, within: float, processes: float, runs: int = 200) -> float:
    """How often the interval covers the truth."""
    dice = random.Random(17)
    found = [estimate(measure(dice, 1.25, placements, 6, between, within, processes)) for _ in range(runs)]
    assert all(each.low <= each.ratio <= each.high for each in found)
    return sum(each.low <= 1.25 <= each.high for each in found) / runs


@pytest.mark.parametrize(
    ("placements", "between", "within", "processes"),
    [
        (8, 0.02, 0.007, 0),
        (8, 0.02, 0.0007, 0),
        (20, 0.02, 0.01, 0),
        (30, 0.0001, 0.0001, 0.00077),
        (8, 0.003, 0.001, 0.00077),
    ],
)
def test_the_interval_covers_the_truth_in_95_of_100(
    placements: int, between: float, within: float, processes: float
) -> None:
    assert 0.90 <= coverage(placements, between, within, processes) <= 0.99


def test_where_only_rounds_differ_the_interval_is_if_anything_too_wide() -> None:
    assert coverage(8, 0.0, 0.02, 0) >= 0.95


def test_the_interval_narrows_with_more_placements() -> None:
    dice = random.Random(1)
    few = estimate(measure(dice, 1.0, 5, 6, 0.02, 0.007))
    many = estimate(measure(dice, 1.0, 80, 6, 0.02, 0.007))
    assert many.half_width < few.half_width / 2


def test_more_rounds_of_the_same_placements_do_not_help() -> None:
    few = estimate(measure(random.Random(1), 1.0, 8, 6, 0.003, 0.0001))
    many = estimate(measure(random.Random(1), 1.0, 8, 600, 0.003, 0.0001))
    assert many.half_width > few.half_width / 2


def test_the_ratio_is_the_baselines_time_over_the_contestants() -> None:
    found = estimate([BlockPair(placement, 3.0, 2.0) for placement in range(4)])
    assert found.ratio == 1.5
    assert found.low < 1.5 < found.high


def test_no_interval_is_narrower_than_what_two_processes_differ_by() -> None:
    steady = [BlockPair(placement, 3.0, 2.0) for placement in range(40) for _ in range(6)]
    assert estimate(steady).half_width == pytest.approx(PROCESS_HALF_WIDTH)
    assert Settings(budget_s=1).target_half_width > PROCESS_HALF_WIDTH, "no measurement could be stable"


def test_an_outlier_moves_the_median_little() -> None:
    blocks = measure(random.Random(1), 1.0, 8, 6, 0.001, 0.001)
    spoiled = [*blocks[:-1], BlockPair(7, 100.0, 1.0)]
    assert estimate(spoiled).ratio == pytest.approx(estimate(blocks).ratio, abs=0.001)


def test_placements_need_not_have_equally_many_rounds() -> None:
    blocks = [BlockPair(placement, 1.0, 1.0) for placement in range(4) for _ in range(placement + 1)]
    assert estimate(blocks).ratio == 1.0


def test_the_same_blocks_give_the_same_interval() -> None:
    blocks = measure(random.Random(1), 1.0, 8, 6, 0.003, 0.001)
    assert estimate(blocks) == estimate(blocks)


@pytest.mark.parametrize("blocks", [[], [BlockPair(0, 1.0, 1.0)] * 10])
def test_one_placement_has_no_interval(blocks: list[BlockPair]) -> None:
    with pytest.raises(ValueError, match="at least two"):
        estimate(blocks)
