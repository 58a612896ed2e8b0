"""The four stages, contract, build, verify and bench: each reads what the stage before left in the candidate.

An opponent has three: prepare, verify and bench.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from harness.catalog.opponents import OpponentEntry
from harness.catalog.tree import Iteration
from harness.evidence import evidence, toolchain
from harness.judge import bindings, builds, contract, fault_attribution, plausibility
from harness.judge.candidate import Candidate, Rejection
from harness.judge.facts.compilation import other_threads
from harness.judge.facts.launchability import does_not_fit
from harness.judge.facts.signature import mismatch
from harness.judge.interpreters import Interpreter
from harness.judge.measuring import measurements, with_baseline_alone
from harness.judge.messages import Broken, Built, Verified, Verify
from harness.judge.places import NAMED, UserCode, parsed, stacked
from harness.judge.processes import (
    BaselineProcess,
    Contestant,
    Ended,
    OpponentProcess,
    Referee,
    Rival,
    Side,
    await_ended,
)
from harness.judge.referee_client import ask, judge_trials, last_words
from harness.judge.vocabulary import refused_source
from harness.machine.nvml import strangers
from harness.records.base import Cause, Stage
from harness.records.builds import Build, BuildRecord
from harness.records.results import Measurement

# The causes that a contestant may give for a failed build; it cannot blame the referee.
BUILD_FAILURES: Final = (Cause.LOAD, Cause.COMPILE, Cause.OUT_OF_MEMORY)
# The causes that no line of the iteration is to blame for, or none more than another.
NOWHERE: Final = (Cause.REFEREE, Cause.ATTEMPTS, Cause.SOURCE_CHANGED, Cause.CLOCK, Cause.SABOTAGE, Cause.ROOFLINE)
# The causes with a stack: the process crashed, or it hangs or grows.
STACKED: Final = (Cause.CRASH, Cause.TIMEOUT, Cause.OUT_OF_MEMORY, Cause.OUT_OF_DISK)


def check(candidate: Candidate) -> Candidate:
    """The contract, on the source."""
    try:
        candidate.terms = contract.check(candidate.iteration)
    except contract.Breach as breach:
        code = UserCode(candidate.iteration.path, candidate.root)
        raise Rejection(Cause.CONTRACT, code.at(breach.line, breach.reason)) from None
    return candidate


def build(candidate: Candidate) -> Candidate:
    """Start the contestant, which loads the iteration and compiles its kernel without touching a device.

    A record of the same source and compilers stands in for a failed build, and for a passed one if no launch follows.
    """
    candidate.stage = Stage.BUILD
    known = None if candidate.settings.again else builds.known(candidate)
    if known is None:
        builds.refuse_exhausted(candidate)
    elif known.cause is not None or not candidate.launches:
        candidate.recorded_build, candidate.build = known, known.build
        if known.cause is not None:
            raise Rejection(known.cause, known.reason or "", known.traceback)
        return candidate
    built = _built(candidate)
    found = _evidence(candidate, built, known)
    candidate.build = msgspec.structs.replace(found, traced_sha256=built.traced_sha256 or None)
    _refuse_unpinned(candidate, built)
    _refuse_other_tensors(candidate, built)
    if built.dynamic:
        _reject(Cause.NOT_PINNED, _made_anew(candidate, built))
    return candidate


def _refuse_other_tensors(candidate: Candidate, built: Built) -> None:
    candidate.dynamic = built.dynamic
    if built.tensors is not None:
        _reject(Cause.WRONG_PROBLEM, mismatch(built.tensors, candidate.iteration.problem, built.dynamic))


def _made_anew(candidate: Candidate, built: Built) -> str | None:
    """The complaint if this source makes another kernel at another of its bindings; None if one kernel serves all.

    What is recorded of them is compared. Where that has no hash, or nothing is recorded at all, each is compiled, in a
    process of its own.
    """
    others = bindings.others(candidate.root, candidate.iteration, built.dynamic)
    recorded = [(each, builds.traced(candidate, each)) for each in others]
    new = not any(made for _, made in recorded)
    found = ((each, made or _traced(candidate, each)) for each, made in recorded if new or made is not None)
    differing = next((each.shape_key for each, made in found if made != built.traced_sha256), None)
    if differing is None:
        return None
    names = ", ".join(built.dynamic)
    return f"build() says that {names} is dynamic, and makes another kernel for {differing}; choose nothing by {names}"


def _traced(candidate: Candidate, binding: Iteration) -> str:
    """The hash of the program that the same source makes at another binding."""
    contestant = Contestant(candidate.root, binding.path, binding.problem, candidate.gpu, candidate.builders)
    try:
        return _answer(contestant, candidate.settings.build_deadline_s).traced_sha256
    finally:
        contestant.end()


def _refuse_unpinned(candidate: Candidate, built: Built) -> None:
    pinned = contract.levers(parsed(candidate.iteration.path)) or {}
    _reject(Cause.NOT_PINNED, built.unpinned or other_threads(built.compilation, pinned.get("threads")))
    _reject(Cause.NOT_PINNED, refused_source(built.compilation.source) if built.compilation else None)


def _built(candidate: Candidate) -> Built:
    """The contestant's answer."""
    path, problem = candidate.iteration.path, candidate.iteration.problem
    given = candidate.root, path, problem, candidate.gpu, candidate.builders
    candidate.contestant = contestant = Contestant(*given, launches=candidate.launches)
    return _answer(contestant, candidate.settings.build_deadline_s)


def _answer(contestant: Contestant, deadline_s: float) -> Built:
    try:
        built: Built | Broken = contestant.hear(Built | Broken, deadline_s)
    except Ended as ended:
        raise Rejection(ended.cause, f"{ended.reason}{last_words(contestant)}") from None
    if isinstance(built, Broken):
        cause = built.cause if built.cause in BUILD_FAILURES else Cause.CRASH
        raise Rejection(cause, built.reason, built.traceback)
    if not 0 <= built.seconds < math.inf:
        raise Rejection(Cause.CRASH, f"the contestant says that it built for {built.seconds} s")
    return built


def prepare(candidate: Candidate) -> Candidate:
    """Start an opponent, which compiles and tunes on the device."""
    candidate.stage = Stage.BUILD
    candidate.contestant = OpponentProcess(candidate.root, candidate.iteration, candidate.gpu)
    built = _answer(candidate.contestant, candidate.settings.opponent_deadline_s)
    candidate.build = Build(round(built.seconds, 3))
    _refuse_other_tensors(candidate, built)
    return candidate


def rival(candidate: Candidate, interpreter: Interpreter, side: Side) -> Built:
    """Start the candidate's iteration on one side under another interpreter, which compiles its kernel."""
    candidate.stage = Stage.BUILD
    try:
        process = Rival(candidate.root, candidate.iteration, candidate.gpu, interpreter, side, candidate.builders)
    except Ended as ended:
        raise Rejection(ended.cause, ended.reason) from None
    if side == "baseline":
        candidate.against, candidate.baseline = candidate.iteration, process
    else:
        candidate.contestant = process
    built = _answer(process, candidate.settings.build_deadline_s)
    _refuse_unpinned(candidate, built)
    if built.compilation is not None and not candidate.gpu.is_cpu:
        _reject(Cause.DOES_NOT_FIT, does_not_fit(built.compilation, candidate.gpu.arch))
    _refuse_other_tensors(candidate, built)
    return built


def _evidence(candidate: Candidate, built: Built, known: BuildRecord | None) -> Build:
    """The build evidence, from the record if that would say the same. Rejects a kernel that no launch can run."""
    seconds = round(built.seconds, 3)
    cuobjdump = toolchain.find().cuobjdump
    recorded = known.build if known is not None else None
    same = recorded is not None and evidence.generated_sha256(built.compilation) == recorded.generated_sha256
    if recorded is not None and (same or cuobjdump is None):
        candidate.recorded_build = known
        return msgspec.structs.replace(recorded, seconds=seconds)
    if built.compilation is not None and not candidate.gpu.is_cpu:
        _reject(Cause.DOES_NOT_FIT, does_not_fit(built.compilation, candidate.gpu.arch))
    problem, tool = candidate.iteration.problem, cuobjdump.path if cuobjdump else None
    found = evidence.examine(built.compilation, problem, candidate.gpu, seconds, tool)
    # TileLang's generated text differs from build to build in names and order; what comes of it does not.
    if recorded is not None and (recorded.kernels, recorded.warnings) == (found.kernels, found.warnings):
        candidate.recorded_build = known
    return found


def verify(candidate: Candidate) -> Candidate:
    """Random, exact, refreshed and corner trials on the device, compared by the referee."""
    candidate.stage = Stage.VERIFY
    assert candidate.contestant is not None, "verify before build"
    referee = meet(candidate)
    answer = ask(candidate, referee, Verify(library=candidate.iteration.number == 0), Verified)
    candidate.verification = answer.trials
    judge_trials(answer.trials)
    for side in (candidate.contestant, candidate.baseline):
        if isinstance(side, Rival) or side is candidate.contestant:
            side.end_children()  # from here on it can start no others
    return candidate


def meet(candidate: Candidate) -> Referee:
    """Start the baseline, and introduce both sides to the referee, once the sides before them are gone."""
    await_ended()
    referee = candidate.referees.seat(candidate.iteration.problem)
    if candidate.baseline is None:
        _start_baseline(candidate)
    assert candidate.contestant is not None and candidate.baseline is not None, "meet before build"
    for each in (candidate.contestant, candidate.baseline):
        each.resume()
    try:
        for side in random.sample((candidate.contestant, candidate.baseline), 2):
            side.introduce(referee, candidate.settings.launch_deadline_s)
    except Ended as ended:
        raise Rejection(Cause.REFEREE, ended.reason) from None
    return referee


def _start_baseline(candidate: Candidate) -> None:
    """Each contestant gets a new baseline process: two processes of the same age differ by a thousandth less."""
    if candidate.against is None:
        candidate.baseline = BaselineProcess(candidate.root, candidate.iteration.problem, candidate.gpu)
        return
    opponent = OpponentProcess(candidate.root, candidate.against, candidate.gpu, "baseline")
    candidate.baseline = opponent
    _answer(opponent, candidate.settings.opponent_deadline_s)


def bench(candidate: Candidate) -> Candidate:
    """Paired blocks over many placements, then every check of whether the measurement can be true."""
    candidate.stage = Stage.BENCH
    assert candidate.contestant is not None, "bench before build"
    problem = candidate.iteration.problem
    for measured in measurements(candidate):
        candidate.measurement = measurement = measured
        late = plausibility.time(measurement, candidate.gpu)
        if late is None:
            break
    _refuse_strangers(candidate)
    _reject(Cause.ROOFLINE, plausibility.speed(measurement.time_ms, problem, candidate.gpu))
    _reject(Cause.CLOCK, late)
    if not candidate.gpu.is_cpu:  # a CPU's noise would hide it
        candidate.contestant.end()
        candidate.measurement = with_baseline_alone(candidate, measurement)
        _reject(Cause.SABOTAGE, plausibility.baseline(candidate.measurement))
    if candidate.hashes_now() != (candidate.source_sha256, candidate.families_sha256, candidate.judge_sha256):
        raise Rejection(Cause.SOURCE_CHANGED, "its source, its family or the judge changed while it was measured")
    return candidate


@dataclass(frozen=True, slots=True)
class Step:
    """One stage; those that need no device run ahead of the others."""

    stage: Stage
    work: Callable[[Candidate], Candidate]
    on_device: bool


STEPS: Final = (
    Step(Stage.CONTRACT, check, on_device=False),
    Step(Stage.BUILD, build, on_device=False),
    Step(Stage.VERIFY, verify, on_device=True),
    Step(Stage.BENCH, bench, on_device=True),
)


def advance(candidate: Candidate, upto: Stage, *, on_device: bool) -> Rejection | None:
    """Take a candidate through its stages on or off the device; the first failure decides the outcome."""
    last = next(number for number, step in enumerate(STEPS) if step.stage is upto)
    try:
        for step in STEPS[: last + 1]:
            if step.on_device == on_device:
                candidate = step.work(candidate)
    except Rejection as rejection:
        return fault_attribution.attribute(candidate, _located(candidate, rejection))
    return None


def _located(candidate: Candidate, rejection: Rejection) -> Rejection:
    """The rejection with its place: where the contestant's stack says it is, or was, else the kernel."""
    if rejection.cause in NOWHERE or NAMED.search(rejection.reason):
        return rejection
    contestant, code = candidate.contestant, UserCode(candidate.iteration.path, candidate.root)
    stack = contestant.stack() if contestant is not None and rejection.cause in STACKED else ""
    told = rejection.traceback or stack.replace(f"{candidate.root}/", "")
    return Rejection(rejection.cause, code.located(rejection.reason, stacked(stack)), told)


def measured(candidate: Candidate) -> Measurement:
    """Build, verify and bench at once, recording nothing; its processes end. Raises Rejection."""
    try:
        _measure(candidate)
    finally:
        candidate.leave()
    assert candidate.measurement is not None
    return candidate.measurement


def judged(candidate: Candidate) -> Rejection | None:
    """``measured``, with the rejection as the outcome. Raises InfrastructureError if every other would fail too."""
    try:
        _measure(candidate)
    except Rejection as rejection:
        return fault_attribution.attribute(candidate, rejection)
    finally:
        candidate.leave()
    return None


def begin(candidate: Candidate) -> Candidate:
    """The first stage with a process: ``build``, or ``prepare`` of an opponent."""
    return prepare(candidate) if isinstance(candidate.iteration, OpponentEntry) else build(candidate)


def _measure(candidate: Candidate) -> None:
    bench(verify(begin(candidate)))


def _reject(cause: Cause, complaint: str | None) -> None:
    if complaint is not None:
        raise Rejection(cause, complaint)


def _refuse_strangers(candidate: Candidate) -> None:
    """Reject a measurement beside another process on the device: it slows both sides down, and not evenly."""
    sides = (candidate.contestant, candidate.baseline, candidate.referees.seat(candidate.iteration.problem))
    others = strangers(candidate.device, {side.pid for side in sides if side is not None})
    if others:
        pids = ", ".join(map(str, others))
        raise Rejection(Cause.REFEREE, f"process {pids} used the device while it was measured; wait until it ends")
