"""Records: what was measured, immutable, one line of JSON each, read strictly and appended whole."""

import fcntl
import hashlib
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from harness.errors import InfrastructureError, explained, printable
from harness.machine.nvml import Telemetry

SCHEMA: Final = 1
R = TypeVar("R", bound=msgspec.Struct)


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
    DOES_NOT_FIT = "does_not_fit"  # compiled, and no launch on this architecture can work
    ATTEMPTS = "attempts"  # its retry budget is used up
    WRONG_PROBLEM = "wrong_problem"
    WRONG_RESULT = "wrong_result"
    INPUT_CHANGED = "input_changed"
    FOREIGN_KERNEL = "foreign_kernel"
    CLOCK = "clock"
    SABOTAGE = "sabotage"
    ROOFLINE = "roofline"
    SOURCE_CHANGED = "source_changed"
    RUNTIME = "runtime"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_DISK = "out_of_disk"
    REFEREE = "referee"  # the machine or the harness failed: not held against the iteration, and tried again

    @property
    def status(self) -> Status:
        failed = {
            Cause.LOAD,
            Cause.COMPILE,
            Cause.DOES_NOT_FIT,
            Cause.ATTEMPTS,
            Cause.RUNTIME,
            Cause.CRASH,
            Cause.TIMEOUT,
            Cause.OUT_OF_MEMORY,
            Cause.OUT_OF_DISK,
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


class KernelEvidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the compilers say of one device kernel (docs/reference/build.md); None where the tool is missing.

    Registers and spills are of a thread, shared memory and ``threads`` of a block, instructions of the code: each is
    counted once however often it runs. ``waves`` is the grid over the blocks that all SMs hold at once.
    """

    name: str
    grid: tuple[int, int, int]
    threads: int
    cluster: tuple[int, int, int]
    dynamic_shared_bytes: int
    static_shared_bytes: int | None = None
    shared_limit_bytes: int | None = None
    registers: int | None = None
    stack_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    blocks_per_sm: int | None = None
    limited_by: str | None = None
    waves: float | None = None
    instructions: dict[str, int] | None = None
    tma_loads: int | None = None
    tma_stores: int | None = None
    cp_async: int | None = None
    ldmatrix: int | None = None

    @property
    def shared_bytes(self) -> int | None:
        return None if self.static_shared_bytes is None else self.static_shared_bytes + self.dynamic_shared_bytes

    @property
    def spill_bytes(self) -> int | None:
        if self.spill_store_bytes is None or self.spill_load_bytes is None:
            return None
        return self.spill_store_bytes + self.spill_load_bytes


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What compiling gave; ``generated_sha256`` is of the generated source, None for a library call.

    The rest is evidence, absent for a library call and on a CPU. ``kernels`` begins with the one that computes.
    """

    seconds: float
    generated_sha256: str | None = None
    generated_bytes: int = 0
    cubin_bytes: int | None = None
    kernels: tuple[KernelEvidence, ...] | None = None
    warnings: tuple[str, ...] | None = None


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
    before the budget ended. Launches are per block. ``late_ms`` and ``baseline_late_ms`` say by how much a block took
    longer by the referee's clock than by the side's own, ``baseline_alone_ms`` is the baseline's time when the
    contestant's process had ended.
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
    late_ms: float | None = None
    baseline_late_ms: float | None = None
    baseline_alone_ms: float | None = None


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of one iteration in one run.

    ``stage`` is the last stage that ran. ``source_sha256`` is of the iteration's file, ``families_sha256`` of the
    modules under kernels/ and baselines/ that it imports, directly or not. ``attempt`` names a candidate that never
    ran, because it did not compile.
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
    attempt: str | None = None

    @property
    def id(self) -> str:
        """A short id, of what the record says: a field that is added later, and absent here, does not change it."""
        return hashlib.sha256(msgspec.json.encode(_said(msgspec.to_builtins(self)))).hexdigest()[:10]

    def answers(self, stage: Stage) -> bool:
        """Whether this outcome says all that a run up to ``stage`` would."""
        return self.status is not Status.PASSED or self.stage == stage or self.stage is Stage.BENCH


class BuildRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of compiling one source for one architecture; the evidence, and what a later build need not repeat.

    ``nvcc`` and ``disassembler`` are versions, empty where a build needs none or has none; ``analysis`` is that of
    the figures (harness/evidence/evidence.py).
    """

    schema: Literal[1]
    recorded_at: str
    gpu: str
    shape_key: str
    model: str
    iteration: str
    number: int
    status: Status
    source_sha256: str
    families_sha256: str
    arch: str
    nvcc: str
    disassembler: str
    tilelang: str
    analysis: int
    judge_sha256: str
    cause: Cause | None = None
    reason: str | None = None
    attempt: str | None = None
    build: Build | None = None


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


class _Schema(msgspec.Struct):
    schema: int


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _said(each) for name, each in value.items() if each is not None}
    return [_said(each) for each in value] if isinstance(value, list | tuple) else value


def append(path: Path, record: R) -> None:
    """Append one whole line, and have it on the disk before returning; raises InfrastructureError."""
    append_made(path, lambda: record)


def append_made(path: Path, make: Callable[[], R]) -> R:
    """Append what ``make`` gives, such as a record with the file's next number; nobody else appends meanwhile."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            record = make()
            line = msgspec.json.encode(record) + b"\n"
            if file.tell() and not _ends_whole(file.fileno(), file.tell()):
                line = b"\n" + line  # a torn last line stays torn, and stays alone
            _write_whole(file.fileno(), line)
    except OSError as error:
        raise InfrastructureError(f"{path}: the record cannot be written: {explained(error)}") from error
    return record


def read(path: Path, kind: type[R]) -> tuple[list[R], list[str]]:
    """All records of a file, and one line for each line that is none, with its number."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise InfrastructureError(f"{path}: the records cannot be read: {explained(error)}") from error
    return decode(content, kind, str(path))


def decode(content: bytes, kind: type[R], name: str) -> tuple[list[R], list[str]]:
    """All records of a file's content, and one line for each line that is none; ``name`` is the file's."""
    lines = content.split(b"\n")
    decoder = msgspec.json.Decoder(kind)
    records: list[R] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            torn = "torn last line" if number == len(lines) else _strange(line)
            problems.append(printable(f"{name}:{number}: {torn}, ignored ({error})"))
    return records, problems


def _strange(line: bytes) -> str:
    """What a whole line is that is no record of this version."""
    try:
        schema = msgspec.json.decode(line, type=_Schema).schema
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "not a record"
    if schema == SCHEMA:
        return f"not a record, though of schema {SCHEMA}"
    return f"made by a tilebench of schema {schema}, and this one reads schema {SCHEMA}"


def _write_whole(descriptor: int, line: bytes) -> None:
    """All of the line, on the disk; or none of it, where there is no room."""
    size = os.fstat(descriptor).st_size
    try:
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _ends_whole(descriptor: int, size: int) -> bool:
    return os.pread(descriptor, 1, size - 1) == b"\n"
