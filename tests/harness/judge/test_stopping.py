"""A measurement ends at a narrow interval or an empty budget, and never before the least sample."""

import pytest

from harness.judge.stopping import NarrowOrSpent, Progress
from harness.records.results import BlockPair

RULE = NarrowOrSpent(target_half_width=0.01, budget_s=1.0, min_placements=4, min_launches=20)


def progress(placements: int, spread: float = 0.0, launches: int = 5, seconds: float = 0.1) -> Progress:
    """Two rounds a placement; their ratios lie ``spread`` apart."""
    ratios = [1.0 + spread * (number % 2) for number in range(2 * placements)]
    blocks = [BlockPair(number // 2, ratio, 1.0) for number, ratio in enumerate(ratios)]
    return Progress(blocks, placements, launches, seconds)


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        (progress(4), True),
        (progress(3), False),  # too few placements
        (progress(4, launches=2), False),  # 16 launches of 20
        (progress(4, spread=0.5), False),  # the interval is wide
        (progress(4, spread=0.5, seconds=1.0), True),  # and the budget is spent
        (progress(3, spread=0.5, seconds=9.0), False),  # a spent budget does not excuse a small sample
    ],
)
def test_when_a_measurement_ends(given: Progress, ends: bool) -> None:
    found = RULE(given)
    assert (found is not None) == ends
    assert found is None or found.low <= found.ratio <= found.high
