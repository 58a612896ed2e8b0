"""The sustained regime: each side alone for over a second at a time, at its own clocks under the power limit."""

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
from harness.records.sustained import POWER_CAP, SustainedMeasurement, SustainedPhase, SustainedSide

NEAR_LIMIT: Final = 0.06  # farther below it, a side was held back by something else for most of its time
Pair = tuple[SustainedPhase, SustainedPhase]  # the library's, the contestant's


@dataclass(frozen=True, slots=True)
class SustainedSettings:
    """Pairs of phases until the interval is narrow, or until another pair would exceed the budget.

    A short pair warms the chip first. Of a phase ``settle_s`` is not counted. A GPU's power controller swings with a
    period of 1.0 s after each pause, by 4 to 5% of the clock. So what counts is one whole period. On an H100 the
    deviation of a pair's ratio was 0.34% then; with 0.4 s uncounted and 0.6 s counted it was 1.05%.
    """

    target_half_width: float = 0.004
    budget_s: float = 15.0
    min_pairs: int = 5
    settle_s: float = 0.25
    counted_s: float = 1.0


def sustain(candidate: Candidate, paired: Measurement | None, settings: SustainedSettings) -> SustainedMeasurement:
    """Measure a verified candidate. Raises Rejection.

    ``paired`` is its measurement at equal clocks, which must explain this one; None for the library itself.
    """
    referee = candidate.referees.seat(candidate.iteration.problem)
    candidate.libraries = ask(candidate, referee, Pace(), Paced).libraries
    began = time.monotonic()
    answers: list[PhasePair] = []
    found = None

    def run(counted_s: float) -> PhasePair:
        answer: PhasePair = ask(candidate, referee, Sustain(settings.settle_s, counted_s), PhasePair)
        judge_trials(answer.trials)
        return answer

    with PowerMeter(candidate.device) as meter:
        run(settings.settle_s)
        while found is None:
            answers.append(run(settings.counted_s))
            ratios = [answer.baseline.launch_ms / answer.contestant.launch_ms for answer in answers]
            found = finished(ratios, time.monotonic() - began, settings)
    pairs = [(phase_of(answer.baseline, meter), phase_of(answer.contestant, meter)) for answer in answers]
    measured = _measurement(candidate, found, pairs, paired, time.monotonic() - began, settings)
    for cause, complaint in (
        (Cause.ROOFLINE, plausibility.speed(measured.contestant.time_ms, candidate.iteration.problem, candidate.gpu)),
        (Cause.CLOCK, plausibility.sustained(measured, paired) if paired is not None else None),
    ):
        if complaint is not None:
            raise Rejection(cause, complaint)
    return measured


def finished(ratios: Sequence[float], seconds: float, settings: SustainedSettings) -> Estimate | None:
    """The estimate once the interval is narrow or the budget is spent; None while the measurement must go on.

    A small budget may allow fewer than ``min_pairs``, but an interval needs two.
    """
    pair_s = 2 * (settings.settle_s + settings.counted_s)
    if len(ratios) < max(2, min(settings.min_pairs, int(settings.budget_s / pair_s))):
        return None
    found = estimate_of_means(ratios)
    spent = seconds + pair_s > settings.budget_s
    return found if spent or found.half_width <= settings.target_half_width else None


def phase_of(phase: SidePhase, meter: PowerMeter) -> SustainedPhase:
    """One side's phase, with the chip meanwhile."""
    chip = meter.reading(phase.began_s, phase.ended_s)
    return SustainedPhase(float(f"{phase.launch_ms:.6g}"), phase.launches, chip)


def _measurement(
    candidate: Candidate,
    found: Estimate,
    pairs: Sequence[Pair],
    paired: Measurement | None,
    seconds: float,
    settings: SustainedSettings,
) -> SustainedMeasurement:
    problem = candidate.iteration.problem
    limit_w = candidate.device.power_limit_w if candidate.device is not None else None
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
    time_ms = fmean(phase.launch_ms for phase in phases)
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
