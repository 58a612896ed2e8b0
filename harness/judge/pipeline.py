"""The straight line: contract, build, verify, bench, each a function of what the stage before it returned."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from harness.errors import compiler_complaint
from harness.evidence import evidence, toolchain
from harness.judge import builds, contract, fault_attribution, plausibility
from harness.judge.candidate import Candidate, Rejection
from harness.judge.facts.hashes import families_sha256, judge_sha256, source_sha256
from harness.judge.facts.signature import mismatch
from harness.judge.measuring import measurements
from harness.judge.messages import (
    Alone,
    Baseline,
    Broken,
    Built,
    Verified,
    Verify,
)
from harness.judge.processes import Contestant, Ended, Opponent
from harness.judge.referee_client import ask, judge_trials, last_words
from harness.machine.nvml import strangers
from harness.records.results import Build, BuildRecord, Cause, Measurement, Stage

ALONE_ROUNDS: Final = 6


def check(candidate: Candidate) -> Candidate:
    """The contract, on the source."""
    try:
        candidate.terms = contract.check(candidate.iteration)
    except contract.Breach as breach:
        raise Rejection(Cause.CONTRACT, str(breach)) from None
    return candidate


def build(candidate: Candidate) -> Candidate:
    """Start the contestant, which loads the iteration and compiles its kernel, touching no device; gather the evidence.

    What is recorded of the same source and the same compilers is not found out again: a failure decides at once, and
    where no launch follows, so does a success.
    """
    candidate.stage = Stage.BUILD
    known = None if candidate.settings.again else builds.known(candidate)
    if known is None:
        builds.refuse_exhausted(candidate)
    elif known.cause is not None or not candidate.launches:
        candidate.recorded_build, candidate.build = known, known.build
        if known.cause is not None:
            raise Rejection(known.cause, known.reason or "")
        return candidate
    problem = candidate.iteration.problem
    contestant = Contestant(candidate.root, candidate.iteration.path, problem, candidate.gpu, candidate.builders)
    candidate.contestant = contestant
    try:
        built = contestant.hear(Built | Broken, candidate.settings.build_deadline_s)
    except Ended as ended:
        raise Rejection(ended.cause, f"{ended.reason}{last_words(contestant)}") from None
    if isinstance(built, Broken):
        said = compiler_complaint(contestant.output()) if built.cause is Cause.COMPILE else None
        raise Rejection(built.cause, said or built.reason)
    candidate.build = _evidence(candidate, built, known)
    if built.tensors is not None:
        difference = mismatch(built.tensors, problem)
        if difference is not None:
            raise Rejection(Cause.WRONG_PROBLEM, difference)
    return candidate


def _evidence(candidate: Candidate, built: Built, known: BuildRecord | None) -> Build:
    """What the build tells, the record's where it tells the same; refuses what cannot be launched."""
    seconds = round(built.seconds, 3)
    cuobjdump = toolchain.find().cuobjdump
    recorded = known.build if known is not None else None
    same = recorded is not None and evidence.generated_sha256(built.compilation) == recorded.generated_sha256
    if recorded is not None and (same or cuobjdump is None):
        candidate.recorded_build = known
        return msgspec.structs.replace(recorded, seconds=seconds)
    try:
        problem, tool = candidate.iteration.problem, cuobjdump.path if cuobjdump else None
        found = evidence.examine(built.compilation, problem, candidate.gpu, seconds, tool)
    except evidence.DoesNotFit as refusal:
        raise Rejection(Cause.DOES_NOT_FIT, str(refusal)) from None
    # TileLang does not generate the same text each time (names, order); what comes of it is the same, or is recorded.
    if recorded is not None and (recorded.kernels, recorded.warnings) == (found.kernels, found.warnings):
        candidate.recorded_build = known
    return found


def verify(candidate: Candidate) -> Candidate:
    """Random, exact and refreshed trials on the device, compared by the referee."""
    candidate.stage = Stage.VERIFY
    assert candidate.contestant is not None, "verify before build"
    referee = candidate.referees.seat(candidate.iteration.problem)
    # A new opponent for each contestant: two processes of the same age differ by a thousandth less than others.
    candidate.opponent = Opponent(candidate.root, candidate.iteration.problem, candidate.gpu)
    candidate.contestant.resume()
    try:
        for side in random.sample((candidate.contestant, candidate.opponent), 2):
            side.introduce(referee, candidate.settings.launch_deadline_s)
    except Ended as ended:
        raise Rejection(Cause.REFEREE, ended.reason) from None
    answer = ask(candidate, referee, Verify(library=candidate.iteration.number == 0), Verified)
    candidate.verification = answer.trials
    judge_trials(answer.trials)
    candidate.contestant.end_children()  # and it can start no others from here on
    return candidate


def bench(candidate: Candidate) -> Candidate:
    """Paired blocks over many placements, until the interval is narrow enough or the budget ends."""
    candidate.stage = Stage.BENCH
    assert candidate.contestant is not None, "bench before build"
    for measured in measurements(candidate):
        candidate.measurement = measurement = measured
        late = plausibility.time(measurement, candidate.gpu)
        if late is None:
            break
    _alone(candidate)
    _believe(plausibility.speed(measurement, candidate.iteration.problem, candidate.gpu), Cause.ROOFLINE)
    _believe(late, Cause.CLOCK)
    if not candidate.gpu.is_cpu:  # where noise would hide it
        candidate.contestant.end()
        referee = candidate.referees.seat(candidate.iteration.problem)
        alone: Baseline = ask(candidate, referee, Alone(ALONE_ROUNDS), Baseline)
        candidate.measurement = measurement = msgspec.structs.replace(measurement, baseline_alone_ms=alone.time_ms)
        _believe(plausibility.baseline(measurement), Cause.SABOTAGE)
    _unchanged(candidate)
    return candidate


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of the line; those that need no device run ahead of the others."""

    stage: Stage
    work: Callable[[Candidate], Candidate]
    on_device: bool


LINE: Final = (
    Step(Stage.CONTRACT, check, on_device=False),
    Step(Stage.BUILD, build, on_device=False),
    Step(Stage.VERIFY, verify, on_device=True),
    Step(Stage.BENCH, bench, on_device=True),
)


def advance(candidate: Candidate, upto: Stage, *, on_device: bool) -> Rejection | None:
    """Take a candidate through its stages on or off the device; the first that fails decides the outcome."""
    last = next(number for number, step in enumerate(LINE) if step.stage is upto)
    try:
        for step in LINE[: last + 1]:
            if step.on_device == on_device:
                candidate = step.work(candidate)
    except Rejection as rejection:
        return fault_attribution.judge(candidate, rejection)
    return None


def measured(candidate: Candidate) -> Measurement:
    """Build, verify and bench at once, recording nothing; its processes end. Raises Rejection."""
    try:
        bench(verify(build(candidate)))
    finally:
        candidate.leave()
    assert candidate.measurement is not None
    return candidate.measurement


def _believe(wrong: str | None, cause: Cause) -> None:
    if wrong is not None:
        raise Rejection(cause, wrong)


def _alone(candidate: Candidate) -> None:
    """Who came to use the device meanwhile has slowed both sides down, and not evenly."""
    sides = (candidate.contestant, candidate.opponent, candidate.referees.seat(candidate.iteration.problem))
    others = strangers(candidate.device, {side.pid for side in sides if side is not None})
    if others:
        pids = ", ".join(map(str, others))
        raise Rejection(Cause.REFEREE, f"process {pids} used the device while it was measured; wait until it ends")


def _unchanged(candidate: Candidate) -> None:
    """What was judged must still be what lies on the disk."""
    now = (
        source_sha256(candidate.iteration.path),
        families_sha256(candidate.root, candidate.iteration.path),
        judge_sha256.__wrapped__(candidate.root, candidate.iteration.problem.operator, candidate.gpu),
    )
    if now != (candidate.source_sha256, candidate.families_sha256, candidate.judge_sha256):
        raise Rejection(Cause.SOURCE_CHANGED, "its source, its family or the judge changed while it was measured")
