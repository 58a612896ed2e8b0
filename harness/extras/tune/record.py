"""Records of tuning: what every candidate gave, and what was picked; one line of JSON each, beside the results."""

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
from harness.records.base import Cause, Environment, LadderRecord, Status
from harness.records.results import BlockPair, Measurement, Record

SCREEN: Final = -1  # the rung before a race: timed together with all others, unverified


class Trial(LadderRecord, frozen=True):
    """One candidate on one rung of a race, or under TileLang's autotuner, which has no rungs and gives a latency.

    ``race`` counts the races of a problem under one model's name; ``families_sha256`` is of the modules under kernels/
    that the candidate imports.
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

    @property
    def key(self) -> str:
        return f"{self.family} {text(self.config)}"


class Pick(LadderRecord, frozen=True):
    """The outcome of one tuning: what it pinned, against how many, and which others tie with it."""

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


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one candidate: its newest outcome, and the estimate over all blocks of its race.

    ``likely``: of one that was not raced, the ratio that its time in the screen suggests.
    """

    trial: Trial
    blocks: tuple[BlockPair, ...]
    estimate: Estimate | None
    screened_ms: float | None = None
    likely: float | None = None

    @property
    def ratio(self) -> float | None:
        """To the baseline, by the race or else by the screen."""
        return self.estimate.ratio if self.estimate is not None else self.likely

    @property
    def time_ms(self) -> float | None:
        """Of one launch, the median over all blocks; of the autotuner its own latency."""
        if not self.blocks:
            return self.trial.latency_ms
        return median(block.contestant_ms for block in self.blocks)


def trials_path(tree: Tree, gpu: str, shape_key: str, model: str) -> Path:
    return tree.records(gpu, shape_key, model).with_name("tuning.jsonl")


def picks_path(tree: Tree, gpu: str, shape_key: str, model: str) -> Path:
    return tree.records(gpu, shape_key, model).with_name("picks.jsonl")


def of_record(record: Record, **more: Any) -> Trial:
    """A trial from what the judge recorded of a candidate's iteration."""
    return Trial(
        schema=1,
        recorded_at=record.recorded_at,
        gpu=record.gpu,
        shape_key=record.shape_key,
        families_sha256=record.families_sha256,
        environment=record.environment,
        status=record.status,
        cause=record.cause,
        reason=record.reason,
        measurement=record.measurement if record.status is Status.PASSED else None,
        **more,
    )


def standings(trials: Iterable[Trial]) -> list[Standing]:
    """One standing a candidate of one race, the best ratio first, those without one last."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.key, []).append(trial)
    found = []
    for group in groups.values():
        blocks = joined(trial.measurement.blocks for trial in group if trial.measurement is not None)
        failed = group[-1].status is not Status.PASSED
        estimated = None if failed or not blocks else estimate(blocks)
        screened_ms = next((trial.latency_ms for trial in reversed(group) if trial.rung == SCREEN), None)
        found.append(Standing(thawed(group[-1]), blocks, estimated, screened_ms))
    return sorted(_likely(found), key=_order)


def _likely(found: list[Standing]) -> list[Standing]:
    """Ratio times screened time is about the same for all; what it is, those that were raced tell."""
    known = [each.estimate.ratio * each.screened_ms for each in found if each.estimate and each.screened_ms]
    if not known:
        return found
    return [
        replace(each, likely=median(known) / each.screened_ms)
        if each.trial.rung == SCREEN and each.trial.status is Status.PASSED and each.screened_ms
        else each
        for each in found
    ]


def thawed(trial: Trial) -> Trial:
    return msgspec.structs.replace(trial, config=frozen(trial.config))


def _order(standing: Standing) -> tuple[int, float]:
    if standing.estimate is not None:
        return 0, -standing.estimate.ratio
    latency_ms = standing.trial.latency_ms
    return (2, 0.0) if latency_ms is None else (1, latency_ms)
