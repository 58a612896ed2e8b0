"""Records of pairs: a leader measured against an opponent that runs in the library's place."""

from harness.records.base import Cause, Environment, IterationRecord, Status
from harness.records.results import Measurement


class PairRecord(IterationRecord, frozen=True):
    """One outcome of a leader against an opponent.

    The ratio in ``measurement`` is the opponent's time over the leader's: above 1 the leader is faster. Both hashes of
    the opponent are like those of an iteration.
    """

    opponent: str
    opponent_sha256: str
    opponent_imports_sha256: str
    status: Status
    source_sha256: str
    families_sha256: str
    environment: Environment
    cause: Cause | None = None
    reason: str | None = None
    measurement: Measurement | None = None

    def applies(self, environment: Environment, timer: str) -> bool:
        """Whether it may stand beside a row of this environment and timer."""
        own = self.measurement and self.measurement.timer
        return own == timer and self.environment.ranks_with(environment)
