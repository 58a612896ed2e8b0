"""The sustained regime: each side alone for about a second at a time, at its own clocks under the power limit."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from harness.judge import plausibility
from harness.judge.candidate import Candidate, Rejection
from harness.judge.facts.problem import Problem
from harness.judge.messages import Pace, Paced, PhasePair, SidePhase, Sustain
from harness.judge.power_meter import PowerMeter
from harness.judge.referee_client import ask, judge_trials
from harness.judge.statistics import Estimate, estimate_of_means
from harness.records.base import Cause
from harness.records.results import Measurement
from harness.records.sustained import POWER_CAP, PowerReading, SustainedMeasurement, SustainedPhase, SustainedSide

NEAR_LIMIT: Final = 0.06  # farther from it, a phase was held back by something else for most of its time
Pair = tuple[SustainedPhase, SustainedPhase]  # the library's, the contestant's


@dataclass(frozen=True, slots=True)
class SustainedSettings:
    """Pairs of phases until the interval is narrow or the budget is spent; the first pair only warms the chip.

    Of a phase ``settle_s`` is not counted. On an H200, 0.4 s uncounted and 0.6 s counted gave four pairs of the library
    beside itself a half-width of 0.07 to 0.38%; 0.15 s and 0.35 s gave nine pairs 0.23 to 0.77%.
    """

    target_half_width: float = 0.004
    budget_s: float = 15.0
    min_pairs: int = 4
    settle_s: float = 0.4
    counted_s: float = 0.6


def sustain(candidate: Candidate, paired: Measurement | None, settings: SustainedSettings) -> SustainedMeasurement:
    """Measure a verified candidate. Raises Rejection.

    ``paired`` is its measurement at equal clocks, which must explain this one; None for the library itself.
    """
    referee = candidate.referees.seat(candidate.iteration.problem)
    candidate.libraries = ask(candidate, referee, Pace(), Paced).libraries
    order = Sustain(settings.settle_s, settings.counted_s)
    began = time.monotonic()
    pairs: list[Pair] = []
    limit_w = candidate.device.power_limit_w if candidate.device is not None else None

    def read(phase: SidePhase) -> SustainedPhase:
        return phase_of(phase, meter.reading(phase.began_s, phase.ended_s), limit_w)

    with PowerMeter(candidate.device) as meter:
        for number in range(1 + most_pairs(settings)):
            answer: PhasePair = ask(candidate, referee, order, PhasePair)
            judge_trials(answer.trials)
            if number == 0:
                continue
            pairs.append((read(answer.baseline), read(answer.contestant)))
            found = finished(pairs, time.monotonic() - began, settings)
            if found is not None:
                break
    assert found is not None
    measured = _measurement(candidate, found, pairs, paired, limit_w, time.monotonic() - began, settings)
    for cause, complaint in (
        (Cause.ROOFLINE, plausibility.speed(measured.contestant.time_ms, candidate.iteration.problem, candidate.gpu)),
        (Cause.CLOCK, plausibility.sustained(measured, paired) if paired is not None else None),
    ):
        if complaint is not None:
            raise Rejection(cause, complaint)
    return measured


def most_pairs(settings: SustainedSettings) -> int:
    """The pairs that the budget allows; at least two, since an interval needs them."""
    return max(2, settings.min_pairs, int(settings.budget_s / (2 * (settings.settle_s + settings.counted_s))))


def finished(pairs: Sequence[Pair], seconds: float, settings: SustainedSettings) -> Estimate | None:
    """The estimate once the interval is narrow or the budget is spent; None while the measurement must go on."""
    if len(pairs) < min(settings.min_pairs, most_pairs(settings)):
        return None
    found = estimate_of_means([library.time_ms / contestant.time_ms for library, contestant in pairs])
    spent = seconds >= settings.budget_s or len(pairs) >= most_pairs(settings)
    return found if spent or found.half_width <= settings.target_half_width else None


def phase_of(phase: SidePhase, chip: PowerReading | None, limit_w: float | None) -> SustainedPhase:
    """One side's phase, with its time at exactly the power limit.

    The controller holds the limit over seconds. So one phase gets 690 W and another 710 W, and is faster for it. Power
    goes with the third power of the clock: frequency times the square of a voltage that follows it. On an H200 the
    slopes of time over power within seven phases of one kernel were -0.39 and -0.41; the correction took the deviation
    of a ratio from 0.56 to 0.35%.
    """
    launch_ms = float(f"{phase.launch_ms:.6g}")
    at_limit_ms = None
    if chip is not None and limit_w is not None and POWER_CAP in chip.throttle:
        share = chip.power_w / limit_w
        if abs(share - 1) <= NEAR_LIMIT:
            at_limit_ms = float(f"{launch_ms * share ** (1 / 3):.6g}")
    return SustainedPhase(launch_ms, phase.launches, chip, at_limit_ms)


def _measurement(
    candidate: Candidate,
    found: Estimate,
    pairs: Sequence[Pair],
    paired: Measurement | None,
    limit_w: float | None,
    seconds: float,
    settings: SustainedSettings,
) -> SustainedMeasurement:
    problem = candidate.iteration.problem
    chips = [phase.chip for pair in pairs for phase in pair if phase.chip is not None]
    reasons = tuple(dict.fromkeys(reason for chip in chips for reason in chip.throttle))
    contestant = side_of(problem, [contestant for _, contestant in pairs])
    return SustainedMeasurement(
        baseline=candidate.baseline_name,
        timer=candidate.gpu.timer,
        ratio=found.ratio,
        ratio_low=found.low,
        ratio_high=found.high,
        stable=found.half_width <= settings.target_half_width,
        contestant=contestant,
        library=side_of(problem, [library for library, _ in pairs]),
        at_limit=POWER_CAP in reasons and near_limit(contestant, limit_w),
        temperature_c=max((chip.temperature_c for chip in chips), default=None),
        throttle=reasons,
        paired_ratio=paired.ratio if paired is not None else None,
        seconds=round(seconds, 3),
        pairs=tuple(pairs),
    )


def near_limit(side: SustainedSide, limit_w: float | None) -> bool:
    """Whether a side draws what the limit allows. One that rests draws less, and gets a higher clock for it."""
    return limit_w is None or side.power_w is None or side.power_w >= limit_w * (1 - NEAR_LIMIT)


def side_of(problem: Problem, phases: Sequence[SustainedPhase]) -> SustainedSide:
    """The means of one side's phases."""
    time_ms = fmean(phase.time_ms for phase in phases)
    chips = [phase.chip for phase in phases if phase.chip is not None]
    counted = [
        phase.chip.power_w * phase.launch_ms / 1e3 for phase in phases if phase.chip is not None and phase.chip.counted
    ]
    joules = fmean(counted) if counted else None
    return SustainedSide(
        time_ms=time_ms,
        tflops=problem.flops / (time_ms * 1e9),
        sm_clock_mhz=fmean(chip.sm_clock_mhz for chip in chips) if chips else None,
        power_w=fmean(chip.power_w for chip in chips) if chips else None,
        joules_per_launch=joules,
        pj_per_flop=joules / problem.flops * 1e12 if joules is not None else None,
    )
