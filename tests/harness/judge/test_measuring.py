"""A measurement ends when its rule says so, and lies move its ratio by no more than the second clock lets pass."""

import math
import random
from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest

from harness.catalog import gpus
from harness.judge import measuring, plausibility
from harness.judge.candidate import Rejection, Settings
from harness.judge.facts.problem import parse_shape_key
from harness.judge.measuring import with_lateness
from harness.judge.messages import Measured, Paced
from harness.judge.statistics import estimate
from harness.records.base import Cause
from harness.records.results import BlockPair, Measurement, Trial
from tests.harness.examples import measurement

PLACEMENTS, ROUNDS, LAUNCHES = 8, 6, 21
BASELINE_MS, HONEST_MS = 0.17, 0.24
HONEST = BASELINE_MS / HONEST_MS
CLAIM = 0.6  # of its time
BUDGET_S = 3.0


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


def placement(number: int, ratio: float = 1.0, error: float = 0.001, blocks: int = 2) -> Measured:
    """What the referee answers of one placement; without blocks its launches take other times than before."""
    made = tuple(BlockPair(number, 1.0 * ratio, 1.0) for _ in range(blocks))
    trial = Trial("timed", error, error, 0.01, 0.01)
    return Measured(made, (trial,), 10, 0.5, ((0.0, 0.01),) * blocks)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Measurement, Any]]:
    """Measures a candidate by what a referee answers in turn: the measurement, and the candidate after it."""

    def carry_out(*answers: Measured, placements: int = 2) -> tuple[Measurement, Any]:
        referee, problem = iter((Paced(10, 12, {"cublas": "13"}), *answers)), parse_shape_key("add_f32fp32_64")
        candidate = SimpleNamespace(
            gpu=gpus.find("h200"),
            device=None,
            iteration=SimpleNamespace(problem=problem),
            referees=SimpleNamespace(seat=lambda problem: None),
            settings=Settings(BUDGET_S, min_placements=placements, min_launches=1),
            baseline_name="torch.add",
            verification=(Trial("random", 0.002, 0.002, 0.01, 0.01), Trial("timed", 0.009, 0.009, 0.01, 0.01)),
            so_far=lambda progress: None,
        )
        monkeypatch.setattr(measuring, "ask", lambda *_: next(referee))
        given: Any = candidate
        return measuring.measure(given, measuring.stopping_rule(given)), candidate

    return carry_out


def test_a_measurement_ends_with_the_rule(measured: Callable[..., tuple[Measurement, Any]]) -> None:
    found, candidate = measured(*(placement(number, 1.25) for number in range(9)), placements=3)
    assert (found.ratio, found.placements, found.rounds, found.seconds) == (1.25, 3, 6, 1.5)
    assert (found.launches, found.baseline_launches, found.verified_blocks, found.stable) == (10, 12, 3, True)
    assert candidate.libraries == {"cublas": "13"}


def test_the_worst_timed_trial_takes_the_place_of_the_last(measured: Callable[..., tuple[Measurement, Any]]) -> None:
    _, candidate = measured(placement(0), placement(1, error=0.004), placement(2), placements=3)
    assert [(each.name, each.max_abs_err) for each in candidate.verification] == [("random", 0.002), ("timed", 0.004)]


def test_a_wrong_timed_output_ends_it(measured: Callable[..., tuple[Measurement, Any]]) -> None:
    with pytest.raises(Rejection, match=r"timed trial: max_abs_err=0.02 is over 0.01"):
        measured(placement(0), placement(1, error=0.02))


def test_a_placement_without_blocks_is_drawn_again_four_times(measured: Callable[..., Any]) -> None:
    empty = [placement(number, blocks=0) for number in range(4)]
    found, _ = measured(*empty, placement(4), placement(5))
    assert (found.placements, found.verified_blocks) == (2, 6)
    with pytest.raises(Rejection, match="blocks of equal length") as rejection:
        measured(*empty, placement(4, blocks=0), placement(5))
    assert rejection.value.cause is Cause.CLOCK


def test_a_wide_interval_is_not_stable(measured: Callable[..., tuple[Measurement, Any]]) -> None:
    found, _ = measured(*(placement(number, 1 + 0.1 * (number % 2)) for number in range(40)))
    assert not found.stable and found.ratio_low < 1.05 < found.ratio_high
    assert found.seconds == BUDGET_S
