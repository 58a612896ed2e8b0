"""Standings: what a play-off found, and how it orders the rows of a leaderboard."""

from typing import Literal

import msgspec

from harness.records.results import Environment


class Standing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One leader: its ratio to the library in each round, and how far behind the first it is.

    ``behind`` is the first's ratio over its own, the geometric mean over rounds; ``low`` and ``high`` bound its 95%
    interval.
    """

    model: str
    iteration: str
    source_sha256: str
    families_sha256: str
    ratios: tuple[float, ...]
    behind: float
    low: float
    high: float


class PlayOff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One play-off of one problem, the first of it first."""

    schema: Literal[1]
    recorded_at: str
    gpu: str
    shape_key: str
    timer: str
    environment: Environment
    standings: tuple[Standing, ...]

    def applies(self, environment: Environment, timer: str) -> bool:
        """Whether rows of this environment and timer may be ordered by it."""
        same = (self.environment.rank_key, self.environment.judge_sha256) == (
            environment.rank_key,
            environment.judge_sha256,
        )
        return same and self.timer == timer
