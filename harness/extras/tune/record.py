"""Records of tuning, one line of JSON each, beside the results: every candidate's outcomes, and the picks."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from harness.catalog.tree import Tree
from harness.extras.tune.race import joined
from harness.extras.tune.space import frozen, text
from harness.judge.statistics import Estimate, estimate
from harness.records.base import Cause, Environment, LadderRecord, Regime, Status
from harness.records.results import BlockPair, Measurement
from harness.records.sustained import SustainedMeasurement

SCREEN: Final = -1  # the rung before a race: candidates timed one block each, unverified
AT_LIMIT: Final = -2  # the rung after a race with the objective sustained


class TuningTrial(LadderRecord, frozen=True):
    """One candidate's outcome on one rung of a race, or under TileLang's autotuner, which gives a latency.

    ``race`` counts the races of a problem under one model's name. ``families_sha256`` is the hash of the modules under
    kernels/ that the candidate imports.
    """

    engine: str
    race: int
    rung: int
    family: str
    config: dict[str, Any]
    origin: str
    families_sha256: str
    environment: Environment
    status: Status
    cause: Cause | None = None
    reason: str | None = None
    measurement: Measurement | None = None
    latency_ms: float | None = None
    sustained: SustainedMeasurement | None = None

    @property
    def key(self) -> str:
        return f"{self.family} {text(self.config)}"


class Pick(LadderRecord, frozen=True):
    """The outcome of one search: the pinned candidate, the number of its rivals, and the candidates that tie.

    With the objective ``sustained`` the ratio at the power limit has decided among the race's first candidates.
    """

    engine: str
    race: int
    family: str
    config: dict[str, Any]
    iteration: str
    candidates: int
    failed: int
    refused: int
    ties: tuple[str, ...]
    seconds: float
    environment: Environment
    families_sha256: str
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    latency_ms: float | None = None
    objective: Regime | None = None
    sustained_ratio: float | None = None
    sustained_ratio_low: float | None = None
    sustained_ratio_high: float | None = None


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """One candidate of a search: its newest outcome, and the estimate over all blocks of its race.

    ``sustained`` is its measurement at the power limit, if it had one.
    ``likely`` is the ratio that the time in the screen suggests, for a candidate that was not raced.
    """

    trial: TuningTrial
    blocks: tuple[BlockPair, ...]
    estimate: Estimate | None
    screened_ms: float | None = None
    likely: float | None = None
    sustained: SustainedMeasurement | None = None

    @property
    def ratio(self) -> float | None:
        """To the baseline, by the race or else by the screen."""
        return self.estimate.ratio if self.estimate is not None else self.likely

    @property
    def by_latency(self) -> bool:
        """Whether candidates are compared by the autotuner's latency, and not by their ratio."""
        return self.trial.engine == "tilelang"

    @property
    def figure(self) -> float | None:
        """What candidates are compared by: the ratio to the baseline, or the latency in ms."""
        return self.trial.latency_ms if self.by_latency else self.ratio

    @property
    def shown(self) -> str:
        """The figure for a person, with less precision and a mark if only the screen suggests it."""
        if self.figure is None:
            return ""
        return f"~{self.figure:.3f}" if self.likely is not None else f"{self.figure:.4f}"

    def beats(self, other: "RankedCandidate") -> bool:
        """Whether its figure is better; both have one."""
        ours, theirs = self.figure or 0.0, other.figure or 0.0
        return ours < theirs if self.by_latency else ours > theirs

    @property
    def time_ms(self) -> float | None:
        """ms a launch: the median over all blocks, else the latency that the autotuner or the screen gave."""
        if not self.blocks:
            return self.trial.latency_ms
        return median(block.contestant_ms for block in self.blocks)


def trials_path(tree: Tree, gpu: str, shape_key: str, model: str) -> Path:
    return tree.records(gpu, shape_key, model).with_name("tuning.jsonl")


def picks_path(tree: Tree, gpu: str, shape_key: str, model: str) -> Path:
    return tree.records(gpu, shape_key, model).with_name("picks.jsonl")


def ranked(trials: Iterable[TuningTrial]) -> list[RankedCandidate]:
    """The candidates of one race, the best ratio first, those without a figure last."""
    groups: dict[str, list[TuningTrial]] = {}
    sustained: dict[str, SustainedMeasurement | None] = {}
    for trial in trials:
        if trial.rung == AT_LIMIT:
            sustained[trial.key] = trial.sustained
        else:
            groups.setdefault(trial.key, []).append(trial)
    found = []
    for key, group in groups.items():
        blocks = joined(trial.measurement.blocks for trial in group if trial.measurement is not None)
        newest = msgspec.structs.replace(group[-1], config=frozen(group[-1].config))
        estimated = estimate(blocks) if blocks and newest.status is Status.PASSED else None
        screened_ms = next((trial.latency_ms for trial in reversed(group) if trial.rung == SCREEN), None)
        found.append(RankedCandidate(newest, blocks, estimated, screened_ms, sustained=sustained.get(key)))
    return sorted(_with_likely(found), key=_order)


def _with_likely(found: list[RankedCandidate]) -> list[RankedCandidate]:
    """Ratio times screened time is about one constant; estimate it from the raced candidates."""
    known = [each.estimate.ratio * each.screened_ms for each in found if each.estimate and each.screened_ms]
    if not known:
        return found
    return [
        replace(each, likely=median(known) / each.screened_ms)
        if each.trial.rung == SCREEN and each.trial.status is Status.PASSED and each.screened_ms
        else each
        for each in found
    ]


def _order(candidate: RankedCandidate) -> tuple[int, float]:
    if candidate.estimate is not None:
        return 0, -candidate.estimate.ratio
    latency_ms = candidate.trial.latency_ms
    return (2, 0.0) if latency_ms is None else (1, latency_ms)
