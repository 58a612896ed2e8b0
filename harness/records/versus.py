"""Records of two environments: an iteration compiled by both, one timed against the other."""

import msgspec

from harness.records.base import Cause, Environment, IterationRecord, Status
from harness.records.results import Measurement


class MatchSide(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An environment that compiled an iteration. ``sha256`` is of its interpreter and of all that it holds.

    ``reason`` says why the iteration fails there, by itself.
    """

    name: str
    python: str
    tilelang: str
    torch: str
    sha256: str
    reason: str | None = None


class VersusRecord(IterationRecord, frozen=True):
    """One measurement of an iteration in two environments.

    The ratio in ``measurement`` is the old environment's time over the new one's: above 1 the new one is faster. Where
    ``swapped``, the old one stood in the contestant's place, and the ratio is the new one's time over the old one's.
    ``identical`` says that both generated the same code; then nothing is measured unless it is asked for.
    """

    old: MatchSide
    new: MatchSide
    swapped: bool
    identical: bool
    status: Status
    source_sha256: str
    families_sha256: str
    environment: Environment
    cause: Cause | None = None
    reason: str | None = None
    measurement: Measurement | None = None
