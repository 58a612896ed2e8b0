"""One measurement of an iteration in two environments: built by both, verified, and timed in paired blocks."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from harness.catalog.tree import Iteration, Tree
from harness.extras.versus.environment import PythonEnvironment
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Referees, Rejection
from harness.judge.facts.gpu import Gpu
from harness.judge.interpreters import Interpreter
from harness.judge.messages import Built
from harness.judge.pipeline import bench, rival, verify
from harness.judge.processes import Side
from harness.judge.verdicts import verdict
from harness.records.base import Cause, identity
from harness.records.versus import MatchSide, VersusRecord
from harness.runs.opponents import OpponentPlan


@dataclass(frozen=True)
class Contender:
    """An environment that takes part: its interpreter, and what records say of it."""

    side: MatchSide
    interpreter: Interpreter

    @classmethod
    def of(cls, tree: Tree, where: PythonEnvironment) -> "Contender":
        side = MatchSide(where.name, where.python_version, where.tilelang, where.torch, where.sha256)
        return cls(side, Interpreter(where.name, where.python, where.caches(tree)))


@dataclass(frozen=True)
class Match:
    """Two environments, and how to measure them; ``identical_too`` measures even what has the same code in both."""

    plan: OpponentPlan
    old: Contender
    new: Contender
    identical_too: bool = False


def duel(match: Match, iteration: Iteration, swapped: bool, referees: Referees) -> VersusRecord:
    """Measure once. Where ``swapped``, the old environment stands in the contestant's place."""
    plan = match.plan
    candidate = _candidate(plan, iteration, referees)
    first, second = (match.new, match.old) if swapped else (match.old, match.new)
    rejection, same = None, False
    try:
        built, failures = _built(candidate, {"baseline": first, "contestant": second})
        same = not failures and identical(built["baseline"], built["contestant"], plan.gpu) and not match.identical_too
        if not failures and not same:
            rejection = _benched(candidate)
    finally:
        candidate.leave()
    if rejection is not None and rejection.cause is not Cause.CLOCK:
        failures = _alone(plan, iteration, referees, (first, second))
    if failures:
        rejection = failures.get(match.new) or failures[match.old]
    return VersusRecord(
        **identity(iteration),
        **verdict(rejection),
        old=_said(match.old, failures),
        new=_said(match.new, failures),
        swapped=swapped,
        identical=same,
        source_sha256=candidate.source_sha256,
        families_sha256=candidate.families_sha256,
        environment=plan.environment(iteration.problem).with_libraries(candidate.libraries),
        measurement=None if rejection is not None else candidate.measurement,
    )


def identical(old: Built, new: Built, gpu: Gpu) -> bool:
    """Whether both compiled the same: on a GPU cubin and launches, on a CPU the C source; False for a library call."""
    if old.compilation is None or new.compilation is None:
        return False
    if gpu.is_cpu:
        return old.compilation.source == new.compilation.source
    made = old.compilation.cubin, old.compilation.launches
    return old.compilation.cubin is not None and made == (new.compilation.cubin, new.compilation.launches)


def _candidate(plan: OpponentPlan, iteration: Iteration, referees: Referees) -> Candidate:
    return Candidate.enter(iteration, plan.tree.root, plan.gpu, plan.device, plan.settings, referees)


def _built(
    candidate: Candidate, places: Mapping[Side, Contender]
) -> tuple[dict[Side, Built], dict[Contender, Rejection]]:
    """Build on both sides, in random order, and see each of them fail."""
    built: dict[Side, Built] = {}
    failures: dict[Contender, Rejection] = {}
    for side, contender in random.sample(list(places.items()), 2):
        try:
            built[side] = rival(candidate, contender.interpreter, side)
        except Rejection as rejection:
            failures[contender] = rejection
    return built, failures


def _benched(candidate: Candidate) -> Rejection | None:
    try:
        bench(verify(candidate))
    except Rejection as rejection:
        return fault_attribution.attribute(candidate, rejection)
    return None


def _alone(
    plan: OpponentPlan, iteration: Iteration, referees: Referees, both: tuple[Contender, Contender]
) -> dict[Contender, Rejection]:
    """Which of two environments fails by itself, beside the library, where their measurement has failed."""
    failures = {}
    for each in both:
        candidate = _candidate(plan, iteration, referees)
        try:
            rival(candidate, each.interpreter, "contestant")
            verify(candidate)
        except Rejection as rejection:
            failures[each] = fault_attribution.attribute(candidate, rejection)
        finally:
            candidate.leave()
    return {each: rejection for each, rejection in failures.items() if rejection.cause is not Cause.REFEREE}


def _said(contender: Contender, failures: Mapping[Contender, Rejection]) -> MatchSide:
    failed = failures.get(contender)
    return contender.side if failed is None else msgspec.structs.replace(contender.side, reason=failed.reason)
