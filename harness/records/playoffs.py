"""Records of play-offs: the order of a problem's leaders, measured in turns."""

import msgspec

from harness.records.base import Environment, ProblemRecord, Regime


class PlayOffEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One leader: its ratio to the library in each round, and its distance from the first.

    ``behind`` is the first's ratio over its own, the geometric mean over rounds. ``low`` and ``high`` bound its 95%
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


class PlayOff(ProblemRecord, frozen=True):
    """One play-off of one problem; ``standings`` begin with the first."""

    timer: str
    environment: Environment
    standings: tuple[PlayOffEntry, ...]
    regime: Regime = Regime.PAIRED

    def applies(self, environment: Environment, timer: str) -> bool:
        """Whether it may order rows of this environment and timer, in its regime."""
        return self.timer == timer and self.environment.ranks_with(environment)
