"""Records of profiles: the counters of an iteration's kernels, the bound, and ideas."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from harness.records.base import Environment, IterationRecord, of_code


class ProfileOutcome(StrEnum):
    PROFILED = "profiled"  # its kernels' counters were read
    TIMED = "timed"  # only names and durations: the counters were not available
    REFUSED = "refused"  # another kernel ran, or its result is wrong
    FAILED = "failed"  # it crashed, hung or left no report


class Bound(StrEnum):
    """What limits a kernel."""

    MEMORY = "memory"
    COMPUTE = "compute"
    LATENCY = "latency"
    LAUNCH = "launch"
    MIXED = "mixed"
    POWER = "power"  # by a record at the power limit, whatever the counters say


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One value in its base unit: byte, s, hz, %, or ncu's own unit; never Mbyte, us or Ghz."""

    value: float
    unit: str = ""


class Idea(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to try. ``config`` holds new values of CONFIG's levers, where a change of levers is enough.

    ``what``, ``because`` and ``fits`` are parts of one sentence.
    """

    tag: str
    what: str
    because: str
    fits: str = ""
    config: dict[str, int | str | bool] = {}

    @property
    def sentence(self) -> str:
        """The idea as the docstring of an iteration says it."""
        what = self.what[0].upper() + self.what[1:]
        return f"{what}, since {self.because}{f'; {self.fits}' if self.fits else ''}."


class KernelTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kernel of the launch, in its order."""

    name: str
    duration_us: float


class ProfileRecord(IterationRecord, frozen=True):
    """One profile. ``metrics`` are ncu's, in base units, of the longest kernel; ``ideas`` are ranked.

    ``csv_sha256`` is of the report beside it, ``seconds`` the time of each step of the profile.
    """

    outcome: ProfileOutcome
    source_sha256: str
    families_sha256: str
    environment: Environment
    reason: str | None = None
    profiler: str | None = None
    kernels: tuple[KernelTime, ...] = ()
    duration_us: float | None = None
    bound: Bound | None = None
    confidence: Confidence | None = None
    limiter: str | None = None
    evidence: tuple[str, ...] = ()
    ideas: tuple[Idea, ...] = ()
    metrics: dict[str, Metric] = msgspec.field(default_factory=dict)
    csv_sha256: str | None = None
    seconds: dict[str, float] = msgspec.field(default_factory=dict)


def newest(profiles: Sequence[ProfileRecord], *code: str) -> ProfileRecord | None:
    """The newest profile with counters of an iteration; ``code`` is as for ``of_code``."""
    return next((each for each in of_code(profiles, *code) if each.outcome is ProfileOutcome.PROFILED), None)
