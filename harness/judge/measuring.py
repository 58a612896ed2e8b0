"""A measurement: paired blocks over many placements, until the stopping rule ends it."""

import math
from collections.abc import Iterator
from itertools import count
from statistics import median
from typing import Final

import msgspec

from harness.judge.candidate import Candidate, Rejection
from harness.judge.facts.device_rules import rules_of
from harness.judge.limits import worst
from harness.judge.messages import Alone, BaselineAlone, Measure, Measured, Pace, Paced
from harness.judge.referee_client import ask, judge_trials
from harness.judge.statistics import Estimate
from harness.judge.stopping import NarrowOrSpent, Progress, StoppingRule
from harness.machine.nvml import Monitor, Telemetry
from harness.records.base import Cause
from harness.records.results import BlockPair, Measurement, Trial

MAX_REPACED: Final = 4
ALONE_ROUNDS: Final = 6


def measurements(candidate: Candidate) -> Iterator[Measurement]:
    """Measurements of one candidate, as many as the device's rules allow; the caller takes the next if one is late."""
    for _ in range(rules_of(candidate.gpu).measurements):
        yield measure(candidate, stopping_rule(candidate))


def stopping_rule(candidate: Candidate) -> StoppingRule:
    settings = candidate.settings
    return NarrowOrSpent(settings.target_half_width, settings.budget_s, settings.min_placements, settings.min_launches)


def _worst_of_each(trials: list[Trial]) -> list[Trial]:
    """The worst trial of each output."""
    names = dict.fromkeys(trial.name for trial in trials)
    return [worst([trial for trial in trials if trial.name == name]) for name in names]


def measure(candidate: Candidate, rule: StoppingRule) -> Measurement:
    """Measure placement by placement until ``rule`` ends it. Raises Rejection."""
    referee = candidate.referees.seat(candidate.iteration.problem)
    paced: Paced = ask(candidate, referee, Pace(), Paced)
    candidate.libraries = paced.libraries
    untimed = tuple(trial for trial in candidate.verification if not trial.name.endswith("timed"))
    kept: list[Measured] = []
    trials: list[Trial] = []
    repaced = 0
    with Monitor(candidate.device) as monitor:
        found: Estimate | None = None
        placements = count()
        while found is None:
            order = Measure(candidate.settings.rounds_per_placement, next(placements))
            measured: Measured = ask(candidate, referee, order, Measured)
            trials += measured.trials
            candidate.verification = (*untimed, *_worst_of_each(trials))
            judge_trials(measured.trials)
            if not measured.blocks:
                repaced += 1
                if repaced > MAX_REPACED:
                    raise Rejection(Cause.CLOCK, "its launches take times too different for blocks of equal length")
                continue
            kept.append(measured)
            candidate.so_far(_progress(kept))
            found = rule(_progress(kept))
    return _measurement(
        candidate, found, paced, kept, len(trials) // len(candidate.iteration.problem.outputs), monitor.telemetry()
    )


def _progress(kept: list[Measured]) -> Progress:
    blocks = [block for measured in kept for block in measured.blocks]
    return Progress(blocks, len(kept), kept[-1].launches, sum(measured.device_s for measured in kept))


def _measurement(
    candidate: Candidate,
    found: Estimate,
    paced: Paced,
    kept: list[Measured],
    verified: int,
    telemetry: Telemetry | None,
) -> Measurement:
    problem = candidate.iteration.problem
    blocks = [block for measured in kept for block in measured.blocks]
    time_ms = median(block.contestant_ms for block in blocks)
    baseline_ms = median(block.baseline_ms for block in blocks)
    measurement = Measurement(
        timer=candidate.gpu.timer,
        baseline=candidate.baseline_name,
        ratio=found.ratio,
        ratio_low=found.low,
        ratio_high=found.high,
        stable=found.half_width <= candidate.settings.target_half_width,
        time_ms=time_ms,
        tflops=problem.flops / (time_ms * 1e9),
        baseline_ms=baseline_ms,
        baseline_tflops=problem.flops / (baseline_ms * 1e9),
        rounds=len(blocks),
        placements=len(kept),
        launches=kept[-1].launches,
        baseline_launches=paced.baseline_launches,
        verified_blocks=verified,
        seconds=round(sum(measured.device_s for measured in kept), 3),
        blocks=tuple(map(_rounded, blocks)),
        telemetry=telemetry,
    )
    return with_lateness(measurement, [late for measured in kept for late in measured.late_ms])


def with_baseline_alone(candidate: Candidate, measurement: Measurement) -> Measurement:
    """With the baseline's time alone; the contestant's process has ended."""
    referee = candidate.referees.seat(candidate.iteration.problem)
    share = ask(candidate, referee, Alone(ALONE_ROUNDS), BaselineAlone).share
    return msgspec.structs.replace(measurement, baseline_alone_ms=measurement.baseline_ms * share)


def with_lateness(measured: Measurement, late_ms: list[tuple[float, float]]) -> Measurement:
    """Add the median lateness of baseline and contestant over all blocks, as the ratio is a median.

    A contestant that lies in enough blocks to move the ratio moves this median too. Raises Rejection where the
    referee's clock says nothing of most blocks.
    """
    baseline, contestant = ([each for each in side if not math.isnan(each)] for side in zip(*late_ms, strict=True))
    if 2 * len(contestant) < len(late_ms):
        raise Rejection(
            Cause.REFEREE,
            f"the referee was held up in {len(late_ms) - len(contestant)} of {len(late_ms)} blocks, so its clock says "
            "nothing; leave it a core of its own",
        )
    return msgspec.structs.replace(
        measured,
        baseline_late_ms=round(median(baseline), 4) if baseline else None,
        late_ms=round(median(contestant), 4),
    )


def _rounded(block: BlockPair) -> BlockPair:
    return BlockPair(block.placement, float(f"{block.baseline_ms:.6g}"), float(f"{block.contestant_ms:.6g}"))
