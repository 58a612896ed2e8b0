"""When a measurement ends: criteria that can be replaced and tested by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.judge.statistics import Estimate, estimate
from harness.records.results import BlockPair


@dataclass(frozen=True, slots=True)
class Progress:
    """What is measured so far: the blocks of all placements, launches per block, seconds of device time."""

    blocks: Sequence[BlockPair]
    placements: int
    launches: int
    seconds: float


class StoppingRule(Protocol):
    """Gives the estimate once a measurement may end; None while it must go on."""

    def __call__(self, progress: Progress) -> Estimate | None: ...


@dataclass(frozen=True, slots=True)
class NarrowOrSpent:
    """Ends at a narrow interval or at the end of the budget, but never before the least sample.

    ``target_half_width`` is relative to the ratio. The least sample is ``min_placements`` and ``min_launches``.
    """

    target_half_width: float
    budget_s: float
    min_placements: int
    min_launches: int

    def __call__(self, progress: Progress) -> Estimate | None:
        if progress.placements < self.min_placements or len(progress.blocks) * progress.launches < self.min_launches:
            return None
        found = estimate(progress.blocks)
        done = found.half_width <= self.target_half_width or progress.seconds >= self.budget_s
        return found if done else None
