"""A contestant that lies about some of its blocks only moves the ratio by no more than the second clock lets pass."""

import math
import random
from statistics import median

import pytest

from harness.catalog import gpus
from harness.judge import plausibility
from harness.judge.candidate import Rejection
from harness.judge.measuring import with_lateness
from harness.judge.statistics import estimate
from harness.records.base import Cause
from harness.records.results import BlockPair
from tests.harness.examples import measurement

PLACEMENTS, ROUNDS, LAUNCHES = 8, 6, 21
BASELINE_MS, HONEST_MS = 0.17, 0.24
HONEST = BASELINE_MS / HONEST_MS
CLAIM = 0.6  # of its time


@pytest.mark.parametrize("everywhere", [0.0, 0.2, 0.34, 0.5, 1.0])
@pytest.mark.parametrize("placements", [0.0, 0.2, 0.45, 0.6, 1.0])
def test_lies_in_chosen_blocks_do_not_pay(placements: float, everywhere: float) -> None:
    """``placements``: the share of them in which every block lies; ``everywhere``: of the blocks of all others."""
    dice = random.Random(7)
    believed: list[float] = []
    for _ in range(20):
        blocks, late_ms = [], []
        for placement in range(PLACEMENTS):
            share = 1.0 if dice.random() < placements else everywhere
            for _ in range(ROUNDS):
                truth_ms = HONEST_MS * dice.gauss(1, 0.005)
                said_ms = truth_ms * CLAIM if dice.random() < share else truth_ms
                hidden_ms = LAUNCHES * (truth_ms - said_ms)
                blocks.append(BlockPair(placement, BASELINE_MS * dice.gauss(1, 0.005), said_ms))
                late_ms.append((math.nan, hidden_ms + dice.uniform(-0.1, 0.1)))
        time_ms = median(block.contestant_ms for block in blocks)
        measured = measurement(1, 1, time_ms=time_ms, launches=LAUNCHES)
        if plausibility.time(with_lateness(measured, late_ms), gpus.find("h200")) is None:
            believed.append(estimate(blocks).ratio)
    assert all(ratio < HONEST * 1.03 for ratio in believed)
    if placements == everywhere == 0:
        assert len(believed) == 20


@pytest.mark.parametrize(("unclear", "held_up"), [(0, False), (5, False), (6, True), (10, True)])
def test_a_referee_that_was_held_up_in_most_blocks_says_so(unclear: int, held_up: bool) -> None:
    late_ms = [(math.nan, math.nan)] * unclear + [(0.2, 0.1)] * (10 - unclear)
    if not held_up:
        assert with_lateness(measurement(1, 1), late_ms).late_ms == 0.1
        return
    with pytest.raises(Rejection, match=rf"held up in {unclear} of 10 blocks.*leave it a core") as rejection:
        with_lateness(measurement(1, 1), late_ms)
    assert rejection.value.cause is Cause.REFEREE
