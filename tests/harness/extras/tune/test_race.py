"""The race on fields with known ratios, and its bookkeeping."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from harness.extras.tune.race import MAX_AT_ONCE, RUNGS, RaceField, Rung, race
from harness.judge.candidate import Settings
from harness.records.results import BlockPair
from tests.harness.extras.tune.simulation import FULL, Simulated, cut_by_rank, field_of

SEEDS = range(12)
TOLERANCE = 0.002
MANY_SLOW = {f"slow{number}": 0.5 for number in range(MAX_AT_ONCE)}


def simulated(seed: int, size: int = 100, noise: float = 1.0) -> Simulated:
    random = np.random.default_rng(seed)
    return Simulated(field_of(size, random), random, noise)


@pytest.fixture(scope="module")
def races() -> list[tuple[Simulated, RaceField]]:
    return [(each, each.race()) for each in map(simulated, SEEDS)]


@pytest.mark.slow
def test_the_best_is_never_dropped(races: list[tuple[Simulated, RaceField]]) -> None:
    for field, finish in races:
        assert max(field.truth, key=lambda key: field.truth[key]) in finish.left


@pytest.mark.slow
def test_the_winner_is_within_tolerance_of_the_best(races: list[tuple[Simulated, RaceField]]) -> None:
    losses = [1 - field.truth[finish.left[0]] / max(field.truth.values()) for field, finish in races]
    assert sum(loss <= TOLERANCE for loss in losses) >= len(losses) - 1
    assert max(losses) < 3 * TOLERANCE


@pytest.mark.slow
def test_it_costs_less_than_measuring_all_fully(races: list[tuple[Simulated, RaceField]]) -> None:
    full = simulated(0)
    for key in full.truth:
        full.blocks(key, RUNGS[-1])
    assert np.mean([field.rounds for field, _ in races]) < 0.3 * full.rounds
    assert np.mean([field.cost for field, _ in races]) < 0.6 * full.cost


@pytest.mark.slow
def test_noise_makes_ties_not_losses() -> None:
    """Four times the noise: intervals are wider, more tie, and the best is still there."""
    field = simulated(1, noise=4.0)
    finish = field.race()
    assert max(field.truth, key=lambda key: field.truth[key]) in finish.left
    assert len(finish.left) > 1


@pytest.mark.slow
def test_a_cut_by_rank_drops_the_best_where_the_race_does_not() -> None:
    """Thirty within 1% tie; a cut to a fixed part of the field loses the best now and then."""
    lost = {"interval": 0, "rank": 0}
    for seed in range(8):
        for name, run in (("interval", Simulated.race), ("rank", cut_by_rank)):
            random = np.random.default_rng(seed)
            field = Simulated(field_of(100, random, close=30, within=0.01), random, noise=2.0)
            lost[name] += max(field.truth, key=lambda key: field.truth[key]) not in run(field).left
    assert lost["interval"] == 0 < lost["rank"]


def test_equal_candidates_tie() -> None:
    random = np.random.default_rng(0)
    finish = Simulated(dict.fromkeys(("one", "two", "three"), 1.0), random).race()
    assert sorted(finish.left) == ["one", "three", "two"]


def test_one_that_leads_ends_the_race() -> None:
    random = np.random.default_rng(0)
    field = Simulated({"fast": 1.0, **MANY_SLOW}, random)
    finish = field.race()
    assert (finish.left, finish.rung, field.starts) == (["fast"], 0, 1 + MAX_AT_ONCE)


def test_a_field_of_few_starts_on_the_last_rung() -> None:
    field = Simulated({"fast": 1.0, "slow": 0.5}, np.random.default_rng(0))
    finish = field.race()
    assert (finish.left, finish.rung, field.starts) == (["fast"], len(RUNGS) - 1, 2)


def test_blocks_of_several_rungs_keep_their_placements_apart() -> None:
    field = RaceField(["one"])
    field.add("one", [BlockPair(0, 1.0, 1.0), BlockPair(1, 1.0, 1.1)])
    field.add("one", [BlockPair(0, 1.0, 1.2), BlockPair(1, 1.0, 1.3)])
    assert [block.placement for block in field.blocks["one"]] == [0, 1, 2, 3]
    assert field.estimates["one"].ratio == pytest.approx(np.median([1 / t for t in (1.0, 1.1, 1.2, 1.3)]))


def test_one_that_fails_on_a_later_rung_is_out() -> None:
    def measure(rung: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[BlockPair] | None]]:
        for key in keys:
            fails = key == "flaky" and rung == 1
            time_ms = 2.0 if key in MANY_SLOW else 1.0
            yield key, None if fails else [BlockPair(place, 1.0, time_ms + 0.001 * place) for place in range(4)]

    finish = race(["flaky", "sound", "also", *MANY_SLOW], measure)
    assert sorted(finish.left) == ["also", "sound"]


def test_a_rung_that_thins_out_ends_with_its_placements() -> None:
    settings = Rung(4, 3).settings(Settings(budget_s=3.0, build_deadline_s=7.0))
    assert (settings.min_placements, settings.rounds_per_placement, settings.budget_s) == (4, 3, 0.0)
    assert settings.build_deadline_s == 7.0
    assert RUNGS[-1].settings(FULL) == FULL
