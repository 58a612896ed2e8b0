"""A measurement: paired blocks over many placements, until the interval is narrow enough or the budget ends."""

from collections.abc import Iterator
from statistics import median
from typing import Final

import msgspec

from harness.judge.candidate import Candidate, Rejection
from harness.judge.messages import Measure, Measured, Pace, Paced
from harness.judge.referee_client import ask, judge_trials
from harness.judge.statistics import Estimate, estimate
from harness.machine.nvml import Monitor
from harness.records.results import Block, Cause, Measurement, Trial

MOST_REPACED: Final = 4
# Others' work on a CPU can make a whole measurement late by the second clock; each one must hold by itself.
CPU_MEASUREMENTS: Final = 3


def measurements(candidate: Candidate) -> Iterator[Measurement]:
    """Measure, and measure again as often as the caller wants to see another: once on a GPU, where nobody disturbs."""
    for _ in range(CPU_MEASUREMENTS if candidate.gpu.is_cpu else 1):
        yield _measure(candidate)


def _measure(candidate: Candidate) -> Measurement:
    referee = candidate.referees.seat(candidate.iteration.problem)
    settings = candidate.settings
    paced: Paced = ask(candidate, referee, Pace(), Paced)
    blocks: list[Block] = []
    trials: list[Trial] = []
    late_ms: list[tuple[float, float]] = []
    untimed = tuple(trial for trial in candidate.verification if trial.name != "timed")
    seconds = 0.0
    placements = repaced = 0
    with Monitor(candidate.device) as monitor:
        for placement in range(1 << 30):
            measured: Measured = ask(candidate, referee, Measure(settings.rounds_per_placement, placement), Measured)
            trials += measured.trials
            candidate.verification = (*untimed, _worst(trials))
            judge_trials(measured.trials)
            if not measured.blocks:
                repaced += 1
                if repaced > MOST_REPACED:
                    raise Rejection(Cause.CLOCK, "its launches take times too different for blocks of equal length")
                continue
            blocks += measured.blocks
            late_ms += measured.late_ms
            placements += 1
            seconds += measured.device_s
            launches = measured.launches
            if placements < settings.min_placements or len(blocks) * launches < settings.min_launches:
                continue
            found = estimate(blocks)
            if found.half_width <= settings.target_half_width or seconds >= settings.budget_s:
                break
    paced = Paced(launches, paced.baseline_launches)
    measurement = _measurement(candidate, found, paced, blocks, len(trials), seconds, monitor)
    return with_lateness(measurement, late_ms)


def _worst(trials: list[Trial]) -> Trial:
    """The timed trial with the largest error, to stand for all of them in the record."""
    return max(trials, key=lambda trial: float("inf") if trial.max_abs_err is None else trial.max_abs_err)


def _measurement(
    candidate: Candidate,
    found: Estimate,
    paced: Paced,
    blocks: list[Block],
    verified: int,
    seconds: float,
    monitor: Monitor,
) -> Measurement:
    problem = candidate.iteration.problem
    time_ms = median([block.contestant_ms for block in blocks])
    baseline_ms = median([block.baseline_ms for block in blocks])
    return Measurement(
        timer=candidate.gpu.timer(problem),
        baseline=candidate.referees.baseline,
        ratio=found.ratio,
        ratio_low=found.low,
        ratio_high=found.high,
        stable=found.half_width <= candidate.settings.target_half_width,
        time_ms=time_ms,
        tflops=problem.flops / (time_ms * 1e9),
        baseline_ms=baseline_ms,
        baseline_tflops=problem.flops / (baseline_ms * 1e9),
        rounds=len(blocks),
        placements=len({block.placement for block in blocks}),
        launches=paced.launches,
        baseline_launches=paced.baseline_launches,
        verified_blocks=verified,
        seconds=round(seconds, 3),
        blocks=tuple(
            Block(b.placement, float(f"{b.baseline_ms:.6g}"), float(f"{b.contestant_ms:.6g}")) for b in blocks
        ),
        telemetry=monitor.telemetry(),
    )


def with_lateness(measured: Measurement, late_ms: list[tuple[float, float]]) -> Measurement:
    """Over all blocks at once, as the ratio is: who lies in so many that the ratio moves has moved this too."""
    return msgspec.structs.replace(
        measured,
        baseline_late_ms=round(median([baseline for baseline, _ in late_ms]), 4),
        late_ms=round(median([contestant for _, contestant in late_ms]), 4),
    )
