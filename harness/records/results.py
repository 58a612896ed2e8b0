"""Records of results: the outcome of an iteration in one run, and the figures of a baseline."""

from collections.abc import Sequence

import msgspec

from harness.machine.nvml import Telemetry
from harness.records.base import BaseRecord, Cause, Confinement, Environment, IterationRecord, RowKind, Stage, Status
from harness.records.builds import Build


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One comparison with the reference. An error that is not finite is None.

    The limits are None for a trial that must match bit for bit. ``worst`` says where a wrong output is most wrong.
    """

    name: str
    max_abs_err: float | None
    rel_err: float | None
    max_abs_limit: float | None
    rel_limit: float | None
    worst: str = ""


def worst_error(trials: Sequence[Trial], name: str = "max_abs_err") -> float | None:
    """The largest of one error over all trials; None where no trial has it, or where a result was not finite."""
    if any(trial.max_abs_err is None for trial in trials):
        return None
    return max((error for trial in trials if (error := getattr(trial, name)) is not None), default=None)


class BlockPair(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One round: its placement, and ms per launch of the baseline and of the contestant."""

    placement: int
    baseline_ms: float
    contestant_ms: float


class Measurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A paired measurement. ``ratio`` is the baseline's time over the contestant's: above 1 is faster.

    ``ratio_low`` and ``ratio_high`` bound its 95% interval. ``stable`` says whether the interval became narrow enough
    within the budget. Launches are per block. ``late_ms`` and ``baseline_late_ms`` say how much longer a block took by
    the referee's clock than by the side's own; a baseline that writes elsewhere has none on a GPU.
    ``baseline_alone_ms`` is the baseline's time after the contestant's process had ended, in rounds that were repeated.
    ``baseline_alone_late_ms``, its lateness then, is in older records only.
    """

    timer: str
    baseline: str
    ratio: float
    ratio_low: float
    ratio_high: float
    stable: bool
    time_ms: float
    tflops: float
    baseline_ms: float
    baseline_tflops: float
    rounds: int
    placements: int
    launches: int
    baseline_launches: int
    verified_blocks: int
    seconds: float
    blocks: tuple[BlockPair, ...]
    telemetry: Telemetry | None = None
    late_ms: float | None = None
    baseline_late_ms: float | None = None
    baseline_alone_ms: float | None = None
    baseline_alone_late_ms: float | None = None


class Record(IterationRecord, frozen=True):
    """The outcome of one iteration in one run.

    ``stage`` is the last stage that ran. ``source_sha256`` is of the iteration's file, ``families_sha256`` of all
    modules under kernels/ that it imports. ``attempt`` names a candidate that failed to compile, and so never ran.
    ``traceback`` is of its own process: at most 6,000 characters.
    ``confinement`` is that of its process; None if none was started, or in an older record.
    ``kind`` is absent for an iteration. Of an opponent, ``config`` names the packages, and ``build`` holds the time of
    compiling and tuning. There ``families_sha256`` is of what the file imports under baselines/ and harness/operators/.
    ``checks`` says whether there is an exact trial, and how the launches of a block are judged: by the operator's
    sketch, by some rows, or by whole outputs. It is None where nothing was verified, and in older records.
    ``dynamic`` names the dimensions that its kernel leaves symbolic; None where there are none.
    """

    status: Status
    stage: Stage
    source_sha256: str
    families_sha256: str
    environment: Environment
    cause: Cause | None = None
    reason: str | None = None
    idea: str | None = None
    parent: str | None = None
    config: str | None = None
    build: Build | None = None
    verification: tuple[Trial, ...] = ()
    measurement: Measurement | None = None
    attempt: str | None = None
    traceback: str | None = None
    confinement: Confinement | None = None
    kind: RowKind | None = None
    checks: str | None = None
    dynamic: tuple[str, ...] | None = None

    def answers(self, stage: Stage) -> bool:
        """Whether a run up to ``stage`` would learn nothing more."""
        return self.status is not Status.PASSED or self.stage == stage or self.stage is Stage.BENCH


class BaselineRecord(BaseRecord, frozen=True):
    """The baseline's own figures, once per problem and environment."""

    shape_key: str
    baseline: str
    timer: str
    time_ms: float
    tflops: float
    environment: Environment
