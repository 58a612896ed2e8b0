"""Records of the sustained regime: a kernel alone on its chip for long, at the power limit."""

from typing import Final

import msgspec

from harness.records.base import Cause, Environment, IterationRecord, Status

POWER_CAP: Final = "power cap"


class PowerReading(msgspec.Struct, frozen=True):
    """The chip during one phase.

    ``power_w`` is energy over time, by the energy counter. Without a counter it is the mean of the sampled power, and
    ``counted`` is false.
    """

    sm_clock_mhz: float
    power_w: float
    counted: bool
    temperature_c: float
    throttle: tuple[str, ...]


class SustainedPhase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counted part of one side's phase: ms per launch, launches, and the chip meanwhile; None on a CPU.

    ``at_limit_ms`` is in older records alone, and their figures count it: the time brought to exactly the power limit.
    """

    launch_ms: float
    launches: int
    chip: PowerReading | None = None
    at_limit_ms: float | None = None


class SustainedSide(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One side's figures: means over its phases.

    Energy comes from the chip's counter and is of the whole board. It is None on a GPU without such a counter.
    """

    time_ms: float
    tflops: float
    sm_clock_mhz: float | None
    power_w: float | None
    joules_per_launch: float | None
    pj_per_flop: float | None


class SustainedMeasurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Phases of over a second in which each side runs alone, after a warm-up at its own clocks.

    ``ratio`` is the baseline's time over the contestant's, the geometric mean over pairs of phases. ``ratio_low`` and
    ``ratio_high`` bound its 95% interval. ``stable`` says whether the interval became narrow enough. ``at_limit`` says
    whether the power limit lowered the contestant's clock. ``paired_ratio`` is the same iteration's at equal clocks.
    """

    baseline: str
    timer: str
    ratio: float
    ratio_low: float
    ratio_high: float
    stable: bool
    contestant: SustainedSide
    library: SustainedSide
    at_limit: bool
    temperature_c: float | None
    throttle: tuple[str, ...]
    paired_ratio: float | None
    seconds: float
    pairs: tuple[tuple[SustainedPhase, SustainedPhase], ...]  # the library's, the contestant's

    @property
    def counts(self) -> bool:
        """False where the limit held the library back and not the contestant.

        Its ratio is then that of two clocks. A process that rests between its launches gets such a ratio too.
        """
        return self.at_limit or POWER_CAP not in self.throttle


class SustainedRecord(IterationRecord, frozen=True):
    """The outcome of one iteration or opponent in the sustained regime.

    ``opponent`` is set where that opponent ran in the library's place; its hashes are like those of an iteration.
    """

    status: Status
    source_sha256: str
    families_sha256: str
    environment: Environment
    cause: Cause | None = None
    reason: str | None = None
    measurement: SustainedMeasurement | None = None
    opponent: str | None = None
    opponent_sha256: str | None = None
    opponent_imports_sha256: str | None = None
