"""A play-off: the leaders of a problem, measured in turns, so that all of them see the same conditions."""

import math
import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from harness.boards import sustained
from harness.boards.ranking import distance
from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError, UsageError
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Rejection
from harness.judge.facts.gpu import Gpu
from harness.judge.pipeline import build, measured
from harness.judge.sustaining import SustainedSettings
from harness.machine.progress import Reporter
from harness.records.base import SCHEMA, Regime, now
from harness.records.playoffs import PlayOff, PlayOffEntry
from harness.records.results import Measurement
from harness.runs.run import Plan, judging

ROUNDS: Final = 8


@dataclass(frozen=True, slots=True)
class AtLimit:
    """How to measure at the power limit, and each leader's measurement at equal clocks, which must explain it."""

    settings: SustainedSettings
    paired: Mapping[Iteration, Measurement]


def hold(plan: Plan, rounds: int, reporter: Reporter, at_limit: AtLimit | None = None) -> PlayOff:
    """Measure each iteration once a round, in random order. Raises InfrastructureError if one is rejected.

    The sample is the round, not the block: effects of one process or one minute are drawn anew in each round. With
    ``at_limit`` the rounds are in the sustained regime.
    """

    def measure(candidate: Candidate) -> float:
        if at_limit is None:
            return measured(candidate).ratio
        outcome = sustained.outcome_of(candidate, at_limit.paired[candidate.iteration], at_limit.settings, build)
        if isinstance(outcome, Rejection):
            raise outcome
        return outcome.ratio

    leaders = plan.iterations
    if len(leaders) < 2:
        lead = "one iteration leads alone" if leaders else "nothing is measured: run bench first"
        raise UsageError(f"a play-off needs two leaders; here {lead}")
    ratios: dict[Iteration, list[float]] = {each: [] for each in leaders}
    with judging(plan.tree, plan.gpu, plan.device, reporter) as referees:
        for number in range(rounds):
            for each in random.sample(leaders, len(leaders)):
                reporter.doing(f"round {number + 1} of {rounds}: {each.name}")
                ratios[each].append(_once(partial(plan.enter, each, referees), measure, plan.gpu))
            told = ", ".join(f"{each.model} {each.name} {found[-1]:.4f}" for each, found in ratios.items())
            reporter.finished(f"round {number + 1}: {told}")
    return PlayOff(
        schema=SCHEMA,
        recorded_at=now(),
        gpu=plan.gpu.key,
        shape_key=leaders[0].shape_key,
        timer=plan.gpu.timer,
        environment=plan.environment(leaders[0].problem.operator),
        standings=stand(plan.tree, ratios),
        regime=Regime.SUSTAINED if at_limit else Regime.PAIRED,
    )


def stand(tree: Tree, ratios: dict[Iteration, list[float]]) -> tuple[PlayOffEntry, ...]:
    """Order the leaders by geometric mean, each with its distance from the first."""
    order = sorted(ratios, key=lambda each: -statistics.fmean(map(math.log, ratios[each])))
    found = []
    for each in order:
        source, families = tree.hashes(each)
        behind, low, high = distance(ratios[order[0]], ratios[each])
        found.append(
            PlayOffEntry(
                model=each.model,
                iteration=each.name,
                source_sha256=source,
                families_sha256=families,
                ratios=tuple(ratios[each]),
                behind=behind,
                low=low,
                high=high,
            )
        )
    return tuple(found)


def _once(
    enter: Callable[[], Candidate], measure: Callable[[Candidate], float], gpu: Gpu, *, again: bool = False
) -> float:
    candidate = enter()
    try:
        return measure(candidate)
    except Rejection as rejection:
        if fault_attribution.is_retried(rejection.cause, gpu) and not again:
            return _once(enter, measure, gpu, again=True)
        raise InfrastructureError(f"{candidate.iteration}: {rejection}; bench it first") from None
