"""The sustained regime: when it ends, what its figures are, and which of them cannot be true."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from harness.catalog import gpus
from harness.judge import plausibility, sustaining
from harness.judge.candidate import Rejection
from harness.judge.facts.problem import parse_shape_key
from harness.judge.messages import Paced, PhasePair, SidePhase, Sustain
from harness.judge.sustaining import SustainedSettings, finished, near_limit, side_of, sustain
from harness.records.base import Cause
from harness.records.sustained import PowerReading, SustainedMeasurement, SustainedPhase
from tests.harness.examples import measurement, sustained

PROBLEM = parse_shape_key("matmul_bf16fp32_8192x8192x8192")
SETTINGS = SustainedSettings()


def phase(launch_ms: float, mhz: float = 1500, watts: float = 700, *, counted: bool = True) -> SustainedPhase:
    return SustainedPhase(launch_ms, 370, PowerReading(mhz, watts, counted, 60, ("power cap",)))


def test_it_ends_when_the_interval_is_narrow_or_the_budget_is_spent() -> None:
    narrow = [1.025, 1.0256] * 3
    wide = [1.025, 1.125] * 3
    assert finished(narrow[:4], 6.0, SETTINGS) is None  # fewer than the least number of pairs
    found = finished(narrow[:5], 7.0, SETTINGS)
    assert found is not None and found.half_width < SETTINGS.target_half_width
    assert found.low < 1.025 < found.high
    assert finished(wide, 8.0, SETTINGS) is None
    spent = finished(wide, SETTINGS.budget_s - 1.0, SETTINGS)  # one more pair takes 2.5 s
    assert spent is not None and spent.half_width > SETTINGS.target_half_width


def test_a_small_budget_allows_two_pairs_and_no_fewer() -> None:
    small = SustainedSettings(budget_s=0.1)
    assert finished([1.02], 2.5, small) is None
    assert finished([1.02, 1.03], 5.0, small) is not None


def test_energy_is_power_times_time_and_needs_a_counter() -> None:
    side = side_of(PROBLEM, [phase(1.6, 1400, 690), phase(1.6, 1500, 710)])
    assert side.joules_per_launch == pytest.approx(0.7 * 1.6)
    assert side.pj_per_flop == pytest.approx(0.7 * 1.6 / PROBLEM.flops * 1e12)
    assert side.sm_clock_mhz == 1450
    assert side.tflops == pytest.approx(PROBLEM.flops / 1.6e9)
    assert side_of(PROBLEM, [phase(1.6, counted=False)]).joules_per_launch is None
    assert side_of(PROBLEM, [SustainedPhase(1.6, 370)]).sm_clock_mhz is None


@pytest.mark.parametrize(
    ("ratio", "clock_gain", "believed"),
    [
        (0.9, 1.0, True),
        (1.08, 1.0, True),
        (1.09, 1.0, False),
        (2.1, 1.0, False),
        (1.35, 1.25, True),
        (1.36, 1.25, False),
        (1.08, 0.9, True),
    ],
)
def test_a_sustained_ratio_is_explained_by_the_paired_one_and_the_clocks(
    ratio: float, clock_gain: float, believed: bool
) -> None:
    found = sustained(ratio)
    assert found.library.sm_clock_mhz is not None
    faster = replace(found.contestant, sm_clock_mhz=found.library.sm_clock_mhz * clock_gain)
    said = plausibility.sustained(replace(found, contestant=faster), measurement(1.045, 1.055))
    assert (said is None) is believed


def test_a_side_that_rests_draws_less_than_the_limit_allows() -> None:
    assert near_limit(side_of(PROBLEM, [phase(1.6, watts=680)]), 700.0)
    assert not near_limit(side_of(PROBLEM, [phase(1.6, watts=400)]), 700.0)
    assert near_limit(side_of(PROBLEM, [phase(1.6, watts=400)]), None)
    assert near_limit(side_of(PROBLEM, [SustainedPhase(1.6, 370)]), 700.0)


def sustained_by(
    monkeypatch: pytest.MonkeyPatch, launches: int, throttle: tuple[str, ...] = ("power cap",)
) -> SustainedMeasurement:
    """What ``sustain`` makes of phases of 1 s, with 625 launches of the library and so many of the contestant."""
    phases = PhasePair(SidePhase(0.0, 1.0, 625), SidePhase(0.0, 1.0, launches), ())
    meter = SimpleNamespace(reading=lambda *_: PowerReading(1500, 700, True, 60, throttle))
    monkeypatch.setattr(sustaining, "PowerMeter", lambda device: nullcontext(meter))
    monkeypatch.setattr(
        sustaining, "ask", lambda _, __, order, ___: phases if isinstance(order, Sustain) else Paced(1, 1)
    )
    candidate: Any = SimpleNamespace(
        referees=SimpleNamespace(seat=lambda problem: None),
        iteration=SimpleNamespace(problem=PROBLEM),
        device=SimpleNamespace(power_limit_w=700.0),
        gpu=gpus.find("h200"),
        baseline_name="torch.matmul",
    )
    return sustain(candidate, measurement(1.045, 1.055), SETTINGS)


def test_what_a_measurement_at_the_limit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sustained_by(monkeypatch, 640)
    assert found.ratio == pytest.approx(1.024)
    assert found.at_limit and len(found.pairs) == SETTINGS.min_pairs
    assert not sustained_by(monkeypatch, 640, ("thermal",)).at_limit


@pytest.mark.parametrize(("launches", "cause"), [(4000, Cause.ROOFLINE), (750, Cause.CLOCK)])
def test_what_cannot_be_is_rejected(monkeypatch: pytest.MonkeyPatch, launches: int, cause: Cause) -> None:
    with pytest.raises(Rejection) as rejected:
        sustained_by(monkeypatch, launches)
    assert rejected.value.cause is cause
