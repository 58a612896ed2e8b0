"""What parent, referee and contestant say to each other: strict, typed, and never pickled."""

from multiprocessing.connection import Connection
from typing import Any, Literal

import msgspec

from harness.records import Block, Cause, Trial
from harness.static.compilation import Compilation


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Base of all messages; the tag is the class's name."""


# contestant -> parent


class Built(Message, frozen=True):
    """The kernel compiled; ``tensors`` are its parameters (shape, dtype). Both are None for a plain callable."""

    seconds: float
    tensors: tuple[tuple[tuple[int, ...], str], ...] | None
    compilation: Compilation | None = None


class Broken(Message, frozen=True):
    """The iteration's own code failed; said by a contestant to its parent or to its referee."""

    cause: Cause
    reason: str


# referee -> contestant and opponent


class Prepare(Message, frozen=True):
    """Bind one call to each set: byte offsets in the arena of its inputs and, last, its output."""

    sets: tuple[tuple[int, ...], ...]
    timer: str


class Run(Message, frozen=True):
    """Run one block: the first set is the lead-in, the others are timed."""


# contestant and opponent -> referee


class Ready(Message, frozen=True):
    """All calls are bound; with the timer ``graph``, captured."""


class Ran(Message, frozen=True):
    """One block ended: its device time, and the host's time from its end to the device being idle."""

    elapsed_ms: float
    tail_ms: float


# parent -> referee


class Meet(Message, frozen=True):
    """A new process of one side; the channel to it follows as a file descriptor."""

    side: Literal["baseline", "contestant"]
    pid: int
    deadline_s: float


class Verify(Message, frozen=True):
    """Run the verification trials."""


class Pace(Message, frozen=True):
    """Warm both sides up and choose the launches per block."""


class Measure(Message, frozen=True):
    """One placement: draw it anew, and run this many rounds on it."""

    rounds: int
    placement: int


# referee -> parent


class Seated(Message, frozen=True):
    """The referee is ready to meet; ``baseline`` names what contestants are measured against."""

    baseline: str


class Verified(Message, frozen=True):
    trials: tuple[Trial, ...]


class Paced(Message, frozen=True):
    launches: int
    baseline_launches: int


class Measured(Message, frozen=True):
    """Raw blocks of one placement, and the trials of its timed outputs."""

    blocks: tuple[Block, ...]
    trials: tuple[Trial, ...]
    device_s: float


class Verdict(Message, frozen=True):
    """The contestant is out: why."""

    cause: Cause
    reason: str


class Trouble(Message, frozen=True):
    """The referee itself cannot go on."""

    reason: str


def send(connection: Connection, message: Message) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


def receive(connection: Connection, kinds: Any) -> Any:
    """One message of one of the given kinds (a type or a union); raises msgspec.MsgspecError for anything else."""
    return msgspec.msgpack.decode(connection.recv_bytes(1 << 24), type=kinds)
