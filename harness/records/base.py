"""What all records share: schema, time, problem, iteration, environment, and the words for an outcome."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Literal, Protocol, Self, TypeVar

import msgspec

from harness.catalog.tree import Iteration
from harness.errors import ExitCode

SCHEMA: Final = 1


def now() -> str:
    """The time of a record: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Status(StrEnum):
    PASSED = "passed"
    REJECTED = "rejected"  # judged, and wrong: contract, result, or a trick
    FAILED = "failed"  # not judged: it did not compile, crashed, hung, or ran out of memory


class RowKind(StrEnum):
    """What a row is about."""

    ITERATION = "iteration"
    OPPONENT = "opponent"


class Stage(StrEnum):
    CONTRACT = "contract"
    BUILD = "build"
    VERIFY = "verify"
    BENCH = "bench"


class Regime(StrEnum):
    """How a kernel and the library are timed."""

    PAIRED = "paired"  # blocks in turns, at equal clocks
    SUSTAINED = "sustained"  # each alone, at its own clock under the power limit


class Cause(StrEnum):
    """Why an iteration did not pass."""

    CONTRACT = "contract"
    LOAD = "load"
    COMPILE = "compile"
    DOES_NOT_FIT = "does_not_fit"  # it compiled, but no launch on this architecture can work
    ATTEMPTS = "attempts"  # its retry budget is used up
    WRONG_PROBLEM = "wrong_problem"
    WRONG_RESULT = "wrong_result"
    INPUT_CHANGED = "input_changed"
    FOREIGN_KERNEL = "foreign_kernel"
    NOT_PINNED = "not_pinned"  # a kernel was made with other levers than CONFIG says
    OVERLAP = "overlap"  # a launch does not wait for the launch before it
    CLOCK = "clock"
    SABOTAGE = "sabotage"
    ROOFLINE = "roofline"
    SOURCE_CHANGED = "source_changed"
    RUNTIME = "runtime"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_DISK = "out_of_disk"
    REFEREE = "referee"  # the machine or the harness failed: a later run tries again


class Confinement(StrEnum):
    """How far a contestant was kept from others; each level has all of the next one."""

    NAMESPACES = "namespaces"  # it sees no other process, network or shared memory
    SYSTEM_CALLS = "system-calls"  # Landlock and seccomp refuse to write elsewhere, to signal and to connect
    LIMITS = "limits"  # deadlines, memory, files; and what else this Linux has


def exit_code_of(ended: Iterable[tuple[Status, Cause | None]]) -> ExitCode:
    """Of a run: a fault of the machine or the harness counts before an iteration that did not pass."""
    found = set(ended)
    if any(cause is Cause.REFEREE for _, cause in found):
        return ExitCode.INFRASTRUCTURE
    return ExitCode.PASSED if all(status is Status.PASSED for status, _ in found) else ExitCode.REJECTED


LIBRARIES: Final = ("cublas", "cublaslt", "cudnn", "nvrtc")


class Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a record was made.

    ``image`` is the container's ID or the hash of its contents. ``forced`` marks a key that is not the device's.
    CUDA's libraries are as the baseline's process loaded them; None where it loaded none, and in older records.
    ``locked_mhz`` is the SM clock that ``--lock-clock`` held.
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
    cublas: str | None = None
    cublaslt: str | None = None
    cudnn: str | None = None
    nvrtc: str | None = None
    locked_mhz: int | None = None

    @property
    def described(self) -> Self:
        """What is known before anything is measured: all but the loaded libraries."""
        return self.with_libraries(dict.fromkeys(LIBRARIES))

    def with_libraries(self, versions: Mapping[str, str | None]) -> Self:
        return msgspec.structs.replace(self, **{name: each for name, each in versions.items() if name in LIBRARIES})

    def loads_alike(self, other: Self) -> bool:
        """Whether no library is known to differ."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in LIBRARIES)
        return all(own is None or its is None or own == its for own, its in pairs)

    def ranks_with(self, other: Self) -> bool:
        """Whether figures of both may stand side by side: the same judge and rank key, and libraries that fit."""
        ours, theirs = ((each.rank_key, each.judge_sha256) for each in (self, other))
        return ours == theirs and self.loads_alike(other)

    def repeats(self, here: Self, *, any_chip: bool = False) -> bool:
        """Whether a measurement ``here`` would only repeat one made in this environment.

        With ``any_chip`` that holds for another chip of the same GPU too, and for all that ranks beside it.
        """
        return self.ranks_with(here) if any_chip else self.described == here

    @property
    def rank_key(self) -> tuple[str, ...]:
        """Records with the same key may be ranked together if they load alike."""
        clock = str(self.locked_mhz or "")
        return (self.device, self.torch, self.tilelang, self.image or "", str(self.forced), clock)

    def line(self) -> str:
        forced = f" forced as {self.gpu}" if self.forced else ""
        image = f", image {self.image[:19]}" if self.image else ""
        clock = f" at {self.locked_mhz} MHz" if self.locked_mhz else ""
        cublas = f", cuBLAS {self.cublas}" if self.cublas else ""
        return (
            f"{self.device}{clock}{forced}, driver {self.driver}, torch {self.torch}{cublas}, "
            f"tilelang {self.tilelang}, Python {self.python}{image}"
        )


def identity(iteration: Iteration) -> dict[str, Any]:
    """The fields that say which iteration a record is about, and when it was made."""
    return {
        "schema": SCHEMA,
        "recorded_at": now(),
        "gpu": iteration.gpu,
        "shape_key": iteration.shape_key,
        "model": iteration.model,
        "iteration": iteration.name,
        "number": iteration.number,
    }


def content_id(content: object) -> str:
    """A record's id, from its plain content: a short hash of its JSON without the fields that have no value."""
    return hashlib.sha256(msgspec.json.encode(without_none(content))).hexdigest()[:10]


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    return [without_none(each) for each in value] if isinstance(value, list | tuple) else value


# The order of the fields is the order in JSON, and a record's id is a hash of its JSON: never reorder them.


class BaseRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal[1]
    recorded_at: str


class ProblemRecord(BaseRecord, frozen=True):
    """A record of one problem under one GPU key."""

    gpu: str
    shape_key: str


class LadderRecord(ProblemRecord, frozen=True):
    """A record of one model's work on a problem."""

    model: str

    @property
    def ladder(self) -> tuple[str, str, str]:
        """GPU key, problem and model, as ``Iteration.ladder`` has them."""
        return self.gpu, self.shape_key, self.model


class IterationRecord(LadderRecord, frozen=True, dict=True):
    iteration: str
    number: int

    @property
    def name(self) -> str:
        """As ``Iteration.name``."""
        return self.iteration

    @property
    def key(self) -> tuple[str, str, str]:
        """Problem, model and name, as ``Iteration.key`` has them."""
        return self.shape_key, self.model, self.iteration

    @cached_property
    def id(self) -> str:
        """A short hash of the content. Fields without a value do not count, so later versions may add fields."""
        return content_id(msgspec.to_builtins(self))


class _OfCode(Protocol):
    @property
    def iteration(self) -> str: ...
    @property
    def source_sha256(self) -> str: ...
    @property
    def families_sha256(self) -> str: ...


C = TypeVar("C", bound=_OfCode)


def of_code(records: Sequence[C], iteration: str, source_sha256: str, families_sha256: str) -> Iterator[C]:
    """The records of exactly this source and these families, the newest first."""
    code = (iteration, source_sha256, families_sha256)
    return (each for each in reversed(records) if (each.iteration, each.source_sha256, each.families_sha256) == code)
