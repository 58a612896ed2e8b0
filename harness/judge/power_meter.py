"""A power meter: clock, power and energy of a GPU while something else runs on it."""

import cmath
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import floor, pi
from statistics import fmean
from typing import Any, Final

import pynvml

from harness.machine.nvml import ChipSample, Sampler, throttle_reasons
from harness.records.sustained import PowerReading

POLL_S: Final = 0.002  # the energy counter steps every 100 ms: 2 ms place a step to 0.4% of half a second
STEP_S: Final = 0.1
STEPS_OF_A_BEAT: Final = 10  # fewer show none
BEAT_KEPT: Final = 0.9  # 1 where all steps come on the beat, near 0 where they come at any time
EARLIEST: Final = 0.1  # of a step before the beat, which is that of the usual delay
SAMPLE_S: Final = 0.02


@dataclass
class PowerMeter(Sampler):
    """``with PowerMeter(device) as meter: …; meter.reading(began, ended)``.

    Times are of ``time.monotonic``, which all processes of a machine share.
    """

    _steps: list[tuple[float, int]] = field(default_factory=list)  # when the counter changed, and to how many mJ

    def reading(self, began: float, ended: float) -> PowerReading | None:
        """What the device did between two times; None if it was not sampled then.

        The step in which a time ends also holds what the device does next. So energy is that of one step earlier, and
        the device must have been at the same work for two steps before ``began``.
        """
        samples = [sample for sample in self._samples if began <= sample.at <= ended]
        if not samples:
            return None
        steps = on_beat(self._steps)
        counted = sum(began - STEP_S <= at <= ended for at, _ in steps) > 1
        return PowerReading(
            sm_clock_mhz=round(fmean(sample.sm_clock_mhz for sample in samples), 1),
            power_w=round(
                power_between(steps, began - STEP_S, ended - STEP_S)
                if counted
                else fmean(sample.power_w for sample in samples),
                2,
            ),
            counted=counted,
            temperature_c=max(sample.temperature_c for sample in samples),
            throttle=throttle_reasons(sample.reasons for sample in samples),
        )

    def _read(self, handle: Any) -> None:
        energy = _energy_mj(handle)
        sampled, last_mj = 0.0, 0
        while not self._done.wait(POLL_S):
            now = time.monotonic()
            if (mj := next(energy, None)) is not None and mj != last_mj:
                if last_mj:  # the first reading is no step
                    self._steps.append((now, mj))
                last_mj = mj
            if now - sampled >= SAMPLE_S:
                sampled = now
                self._samples.append(ChipSample.now(handle))


def on_beat(steps: Sequence[tuple[float, int]]) -> Sequence[tuple[float, int]]:
    """Steps (seconds, mJ) of an energy counter at multiples of ``STEP_S``; as they were seen if it keeps no such beat.

    A step is seen late where a call of the driver takes long: by up to 5 ms on an H200, where 200 came every 100.00 ms.
    One that is seen 90 ms late changes the energy of a phase of 1 s by up to 9%.
    """
    beat = sum(cmath.exp(2j * pi * at / STEP_S) for at, _ in steps) / max(1, len(steps))
    if len(steps) < STEPS_OF_A_BEAT or abs(beat) < BEAT_KEPT:
        return steps
    first = cmath.phase(beat) / (2 * pi) * STEP_S
    numbers = {floor((at - first) / STEP_S + EARLIEST): mj for at, mj in steps}
    return [(first + number * STEP_S, mj) for number, mj in numbers.items()]


def power_between(steps: Sequence[tuple[float, int]], began: float, ended: float) -> float:
    """Watts between two times, from at least two steps (seconds, mJ) of an energy counter.

    Energy is linear between two steps. Time before the first step or after the last one is left out.
    """
    began, ended = max(began, steps[0][0]), min(ended, steps[-1][0])
    return (_energy_at(steps, ended) - _energy_at(steps, began)) / 1e3 / (ended - began)


def _energy_at(steps: Sequence[tuple[float, int]], at: float) -> float:
    after = max(1, bisect_left(steps, at, key=lambda step: step[0]))
    (before_s, before_mj), (after_s, after_mj) = steps[after - 1 : after + 1]
    return before_mj + (after_mj - before_mj) * (at - before_s) / (after_s - before_s)


def _energy_mj(handle: object) -> Iterator[int]:
    """The total energy in mJ at each call; ends at once where the device has no counter."""
    with suppress(pynvml.NVMLError):
        while True:
            yield pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
