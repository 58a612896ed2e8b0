"""Records: what was measured, immutable, one line of JSON each, read strictly and appended whole."""

import fcntl
import hashlib
import os
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from harness.errors import InfrastructureError
from harness.nvml import Telemetry

SCHEMA: Final = 1
R = TypeVar("R", "Record", "BaselineRecord")


class Status(StrEnum):
    PASSED = "passed"
    REJECTED = "rejected"  # judged, and wrong: contract, result, or a trick
    FAILED = "failed"  # could not be judged: did not compile, crashed, hung, ran out of memory


class Stage(StrEnum):
    CONTRACT = "contract"
    BUILD = "build"
    VERIFY = "verify"
    BENCH = "bench"


class Cause(StrEnum):
    """Why an iteration did not pass."""

    CONTRACT = "contract"
    LOAD = "load"
    COMPILE = "compile"
    WRONG_PROBLEM = "wrong_problem"
    WRONG_RESULT = "wrong_result"
    INPUT_CHANGED = "input_changed"
    CLOCK = "clock"
    ROOFLINE = "roofline"
    SOURCE_CHANGED = "source_changed"
    RUNTIME = "runtime"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REFEREE = "referee"

    @property
    def status(self) -> Status:
        failed = {
            Cause.LOAD,
            Cause.COMPILE,
            Cause.RUNTIME,
            Cause.CRASH,
            Cause.TIMEOUT,
            Cause.OUT_OF_MEMORY,
            Cause.REFEREE,
        }
        return Status.FAILED if self in failed else Status.REJECTED


class Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a record was made.

    ``image`` is the container's, by its ID or its contents; ``forced`` marks a key that is not the device's.
    """

    gpu: str
    device: str
    device_uuid: str
    driver: str
    python: str
    torch: str
    tilelang: str
    tvm_ffi: str
    judge_sha256: str
    image: str | None = None
    forced: bool = False

    @property
    def rank_key(self) -> tuple[str, ...]:
        """Records with the same key may be ranked together."""
        return (self.device, self.torch, self.tilelang, self.image or "", str(self.forced))

    def line(self) -> str:
        forced = f" forced as {self.gpu}" if self.forced else ""
        image = f", image {self.image[:19]}" if self.image else ""
        return (
            f"{self.device}{forced}, driver {self.driver}, torch {self.torch}, tilelang {self.tilelang}, "
            f"Python {self.python}{image}"
        )


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What compiling gave; ``generated_sha256`` is of the generated source, None for a library call."""

    seconds: float
    generated_sha256: str | None = None
    generated_bytes: int = 0


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One comparison with the reference; limits are None for a trial that must match bit for bit."""

    name: str
    max_abs_err: float | None
    rel_err: float | None
    max_abs_limit: float | None
    rel_limit: float | None


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One round: the placement it belongs to, and ms per launch of the baseline and of the contestant."""

    placement: int
    baseline_ms: float
    contestant_ms: float


class Measurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A paired measurement. ``ratio`` is the baseline's time over the contestant's: above 1 is faster.

    ``ratio_low`` and ``ratio_high`` bound its 95% interval; ``stable`` says whether the interval became narrow enough
    before the budget ended. Launches are per block.
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
    blocks: tuple[Block, ...]
    telemetry: Telemetry | None = None


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of one iteration in one run.

    ``stage`` is the last stage that ran. ``source_sha256`` is of the iteration's file, ``families_sha256`` of the
    modules under kernels/ and baselines/ that it imports, directly or not.
    """

    schema: Literal[1]
    recorded_at: str
    gpu: str
    shape_key: str
    model: str
    iteration: str
    number: int
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

    @property
    def id(self) -> str:
        """A short id, of what the record says: a field that is added later, and absent here, does not change it."""
        return hashlib.sha256(msgspec.json.encode(_said(msgspec.to_builtins(self)))).hexdigest()[:10]

    def answers(self, stage: Stage) -> bool:
        """Whether this outcome says all that a run up to ``stage`` would."""
        return self.status is not Status.PASSED or self.stage == stage or self.stage is Stage.BENCH


class BaselineRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The baseline's own figures, once per problem and environment."""

    schema: Literal[1]
    recorded_at: str
    shape_key: str
    baseline: str
    timer: str
    time_ms: float
    tflops: float
    environment: Environment


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _said(each) for name, each in value.items() if each is not None}
    return [_said(each) for each in value] if isinstance(value, list | tuple) else value


def append(path: Path, record: Record | BaselineRecord) -> None:
    """Append one whole line, and have it on the disk before returning; raises InfrastructureError."""
    line = msgspec.json.encode(record) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if file.tell() and not _ends_whole(file.fileno(), file.tell()):
                line = b"\n" + line  # a torn last line stays torn, and stays alone
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InfrastructureError(f"{path}: the record cannot be written: {error.strerror}") from error


def read(path: Path, kind: type[R]) -> tuple[list[R], list[str]]:
    """All records of a file, and one line for each line that is none, with its number."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise InfrastructureError(f"{path}: the records cannot be read: {error.strerror}") from error
    decoder = msgspec.json.Decoder(kind)
    records: list[R] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            torn = "torn last line" if number == len(lines) else f"not a record of schema {SCHEMA}"
            problems.append(f"{path}:{number}: {torn}, ignored ({' '.join(str(error).split())})")
    return records, problems


def _ends_whole(descriptor: int, size: int) -> bool:
    return os.pread(descriptor, 1, size - 1) == b"\n"
