"""The messages between parent, referee and both sides: strict, typed, and never pickled."""

import hashlib
import os
import select
import struct
import time
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import Any, Final, Literal, get_args, get_type_hints

import msgspec

from harness.judge.facts.compilation import Compilation
from harness.records.base import Cause, Confinement
from harness.records.results import BlockPair, Trial

LARGEST_BYTES: Final = 1 << 24
_LENGTH: Final = struct.Struct("!i")  # as multiprocessing writes it


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Base of all messages; its class's name is the tag."""


# both sides -> parent


class Confined(Message, frozen=True):
    """The process is set up, and no foreign code has run: its PID as the parent sees it, and how it is confined.

    ``version`` is that of the messages it speaks.
    """

    pid: int
    level: Confinement
    version: str = ""


# contestant -> parent


class Built(Message, frozen=True):
    """The kernel compiled; ``tensors`` are its parameters (shape, dtype). Both are None for a plain callable.

    ``unpinned`` is the complaint about levers that differ from CONFIG, here and in Inspected; empty if none does.
    ``dynamic`` are the dimensions that the kernel leaves symbolic, and ``traced_sha256`` is then of its program.
    """

    seconds: float
    tensors: tuple[tuple[tuple[int, ...], str], ...] | None
    compilation: Compilation | None = None
    unpinned: str = ""
    dynamic: tuple[str, ...] = ()
    traced_sha256: str = ""


class Broken(Message, frozen=True):
    """The iteration's own code failed. A contestant says so to its parent or to its referee."""

    cause: Cause
    reason: str
    traceback: str = ""


# referee -> both sides


class Prepare(Message, frozen=True):
    """Bind one call to each set: byte offsets in the arena of its inputs and, last, its outputs.

    ``writes`` asks for calls that write the outputs, even if the timed call of a baseline only returns them.
    """

    sets: tuple[tuple[int, ...], ...]
    timer: str
    writes: bool = False


class Run(Message, frozen=True):
    """Run one block: the first set is the lead-in, the others are timed, ``repetitions`` times without a pause."""

    repetitions: int = 1


class Inspect(Message, frozen=True):
    """Say what one launch consists of; Prepare must have bound two sets or more."""


# both sides -> referee


class Renew(Message, frozen=True):
    """Prepare the inputs again, as they are now; asked of libraries and opponents alone, outside what is timed."""


class Ready(Message, frozen=True):
    """All calls are bound; with the timer ``graph``, captured. ``prepares`` asks for a ``Renew`` after new inputs.

    ``libraries`` are the versions of CUDA's libraries in the process, once it has launched. ``overlap`` is the
    complaint about captured calls that do not wait for each other.
    """

    libraries: dict[str, str] = {}
    overlap: str = ""
    prepares: bool = False


class Ran(Message, frozen=True):
    """One block ended: its time by the side's own clock."""

    elapsed_ms: float


class Inspected(Message, frozen=True):
    """What launches consist of; on a CPU only ``operators`` is filled.

    ``kernels`` are the device kernels of one call in a CUDA graph, and ``of_two`` counts those of two calls.
    ``compiled`` are the kernels that TileLang made in this process, ``operators`` the torch operators of one call.
    """

    kernels: tuple[str, ...]
    of_two: int
    compiled: tuple[str, ...]
    operators: tuple[str, ...]
    unpinned: str = ""


# parent -> referee


class Meet(Message, frozen=True):
    """A new process of one side; the channel to it follows as a file descriptor.

    ``opponent`` is the name of the opponent that it runs, if it runs one. ``prepares`` allows it to prepare inputs.
    """

    side: Literal["baseline", "contestant"]
    pid: int
    deadline_s: float
    opponent: str = ""
    prepares: bool = False


class Verify(Message, frozen=True):
    """Run the verification trials; ``library`` says that the contestant is the baseline's own call."""

    library: bool


class Pace(Message, frozen=True):
    """Warm both sides up and choose the launches per block."""


class Measure(Message, frozen=True):
    """Draw a new placement and run this many rounds on it."""

    rounds: int
    placement: int


class Alone(Message, frozen=True):
    """Time the baseline once more, after the contestant's process has ended."""

    rounds: int


class Sustain(Message, frozen=True):
    """Run one phase of each side on a new placement, in random order.

    Each runs for ``settle_s`` until its clock has settled, and then for ``counted_s``.
    """

    settle_s: float
    counted_s: float


# referee -> parent


class Seated(Message, frozen=True):
    """The referee is ready; ``baseline`` is the name of the library's call."""

    baseline: str


class Verified(Message, frozen=True):
    trials: tuple[Trial, ...]


class Paced(Message, frozen=True):
    """Launches per block, and the versions of CUDA's libraries in the baseline's process."""

    launches: int
    baseline_launches: int
    libraries: dict[str, str] = {}


class Measured(Message, frozen=True):
    """Raw blocks of one placement, and the trials of its timed outputs.

    ``late_ms`` holds for each round how much longer the baseline's and the contestant's block took by the referee's
    clock than by the side's own; NaN where that clock says nothing.
    """

    blocks: tuple[BlockPair, ...]
    trials: tuple[Trial, ...]
    launches: int
    device_s: float
    late_ms: tuple[tuple[float, float], ...]


class SidePhase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counted part of one side's phase: its begin and end by the machine's monotonic clock, and its launches."""

    began_s: float
    ended_s: float
    launches: int

    @property
    def launch_ms(self) -> float:
        return (self.ended_s - self.began_s) * 1e3 / self.launches


class PhasePair(Message, frozen=True):
    """One phase of each side, and the trials of what one launch of the contestant left."""

    baseline: SidePhase
    contestant: SidePhase
    trials: tuple[Trial, ...]


class BaselineAlone(Message, frozen=True):
    """The baseline's time without a contestant over that beside it: the median over rounds that were repeated."""

    share: float


class Disqualified(Message, frozen=True):
    """The contestant is out of the measurement, and why."""

    cause: Cause
    reason: str
    traceback: str = ""


class Trouble(Message, frozen=True):
    """The referee itself cannot go on."""

    reason: str


def _spoken(kind: Any) -> str:
    """A type in words, with the fields of each struct and the values of each enumeration in it."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return f"{kind.__name__}{[(name, _spoken(each)) for name, each in get_type_hints(kind).items()]}"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return str([each.value for each in kind])
    return f"{kind}{[_spoken(each) for each in get_args(kind)]}"


# Changes with every message: both ends of a channel must run the same, whatever their interpreters are.
VERSION: Final = hashlib.sha256("".join(map(_spoken, Message.__subclasses__())).encode()).hexdigest()[:8]


class Unanswered(Exception):
    """No whole message came in time."""


def send(connection: Connection, message: Message) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


def receive(connection: Connection, kinds: Any, deadline_s: float | None = None) -> Any:
    """One message of one of the given kinds (a type or a union).

    Raises msgspec.MsgspecError for anything else, and EOFError or OSError if the other end is gone. Raises
    Unanswered if no whole message comes within the deadline: the other end may send half a message and stop.
    """
    until = None if deadline_s is None else time.monotonic() + deadline_s
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size, until))
    if not 0 <= length <= LARGEST_BYTES:
        raise msgspec.ValidationError(f"a message of {length} bytes")
    return msgspec.msgpack.decode(_exactly(connection, length, until), type=kinds)


def _exactly(connection: Connection, size: int, until: float | None) -> bytes:
    parts: list[bytes] = []
    ready = select.poll()
    ready.register(connection.fileno(), select.POLLIN)
    while size:
        left_ms = None if until is None else max(0.0, (until - time.monotonic()) * 1e3)
        if not ready.poll(left_ms):
            raise Unanswered
        part = os.read(connection.fileno(), min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
