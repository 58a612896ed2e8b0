"""The power meter: energy by the counter, from a driver that is made to say so."""

import time

import pynvml
import pytest

from harness.judge.power_meter import STEP_S, PowerMeter, on_beat, power_between
from harness.machine.nvml import ChipSample, Device
from tests.harness.checkout import until

H200 = Device(0, "NVIDIA H200", "GPU-1", "580", 700.0)
STEP_MJ = 7_000


class CountingDriver:
    """A chip that takes 700 W by its counter, which steps at every tenth reading; it samples 650 W."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, counter: bool = True) -> None:
        self.readings = 0
        self.counter = counter
        answers = {"ClockInfo": 1400, "PowerUsage": 650_000, "Temperature": 61, "CurrentClocksThrottleReasons": 0x4}
        for name in ("nvmlInit", "nvmlShutdown"):
            monkeypatch.setattr(pynvml, name, lambda: None)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
        for name, value in answers.items():
            monkeypatch.setattr(pynvml, f"nvmlDeviceGet{name}", lambda *_, value=value: value)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", self.energy_mj)

    def energy_mj(self, _: object) -> int:
        if not self.counter:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self.readings += 1
        return 1_000_000 + self.readings // 10 * STEP_MJ


def test_power_is_energy_over_time_and_linear_between_two_steps() -> None:
    steps = [(1.0, 5_000), (1.1, 75_000), (1.3, 175_000)]
    assert power_between(steps, 1.0, 1.1) == pytest.approx(700)
    assert power_between(steps, 1.05, 1.2) == pytest.approx((35 + 50) / 0.15)


def test_time_without_a_step_beyond_it_is_left_out() -> None:
    steps = [(1.0, 5_000), (1.1, 75_000)]
    assert power_between(steps, 0.5, 1.6) == pytest.approx(700)


def seen(late_s: dict[int, float], unseen: range = range(0)) -> list[tuple[float, int]]:
    """Steps of a chip at 700 W, 2 or 4 ms late or as late as said."""
    return [
        (10 + number / 10 + late_s.get(number, 0.002 + number % 2 * 0.002), 70_000 * number)
        for number in range(40)
        if number not in unseen
    ]


@pytest.mark.parametrize(
    ("late_s", "unseen"), [({20: 0.07}, range(0)), ({20: 0.085}, range(15, 20)), ({10: 0.08, 31: 0.05}, range(29, 31))]
)
def test_a_step_that_is_seen_late_does_not_change_the_power(late_s: dict[int, float], unseen: range) -> None:
    steps = seen(late_s, unseen)
    for began in (11.0, 11.05, 12.0, 12.05, 12.09):
        assert power_between(on_beat(steps), began, began + 1) == pytest.approx(700, rel=1e-3)
    assert max(abs(power_between(steps, 10 + end / 100, 11 + end / 100) / 700 - 1) for end in range(50, 150)) > 0.03


def test_steps_without_a_beat_stay_as_they_were_seen() -> None:
    for every_s in (0.07, 0.1013):
        steps = [(10 + every_s * number, 70_000 * number) for number in range(80)]
        assert on_beat(steps) == steps
    assert on_beat(seen({})[:9]) == seen({})[:9]


def test_what_the_device_does_after_a_phase_is_not_in_its_power() -> None:
    meter = PowerMeter(H200)
    busy, idle = 700.0, 100.0
    ended = 11.05  # in the middle of a step
    mj = 0
    for step in range(100, 115):
        at = step / 10
        mj += round(1e3 * (busy * max(0, min(0.1, ended - (at - 0.1))) + idle * max(0, min(0.1, at - ended))))
        meter._steps.append((at, mj))
        meter._samples.append(ChipSample(at, 1400, busy, 61, 0x4))
    found = meter.reading(10.55, ended)
    assert found is not None and found.counted
    assert found.power_w == pytest.approx(busy)


def test_a_phase_takes_the_power_between_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = CountingDriver(monkeypatch)
    began = time.monotonic()
    with PowerMeter(H200) as meter:
        assert until(lambda: driver.readings > 60)
        ended = time.monotonic()
    found = meter.reading(began, ended)
    assert found is not None and found.counted
    assert found.power_w == pytest.approx(power_between(meter._steps, began - STEP_S, ended - STEP_S), abs=0.01)
    assert all(step_mj - 1_000_000 in range(0, 1 << 30, STEP_MJ) for _, step_mj in meter._steps)
    assert (found.sm_clock_mhz, found.temperature_c, found.throttle) == (1400, 61, ("power cap",))


def test_without_a_counter_the_sampled_power_stands_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    CountingDriver(monkeypatch, counter=False)
    began = time.monotonic()
    with PowerMeter(H200) as meter:
        assert until(lambda: meter.reading(began, time.monotonic()) is not None)
    found = meter.reading(began, time.monotonic())
    assert found is not None and not found.counted
    assert found.power_w == 650


def test_no_device_and_no_time_have_no_reading() -> None:
    with PowerMeter(None) as meter:
        assert meter.reading(0, time.monotonic()) is None
