"""Messages: whole, typed and in time, whatever the other end sends."""

import math
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.child.side import Out, ServedSide
from harness.judge.messages import (
    LARGEST_BYTES,
    VERSION,
    Broken,
    Confined,
    Message,
    Prepare,
    Ran,
    Ready,
    Unanswered,
    _spoken,
    receive,
    send,
)
from harness.records.base import Cause, Confinement
from harness.records.results import Trial
from tests.harness.checkout import ROOT

Pair = tuple[Connection, Connection]


def make_pair() -> Pair:
    ours, theirs = socket.socketpair()
    return Connection(ours.detach()), Connection(theirs.detach())


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = make_pair()
    yield ours, theirs
    for end in (ours, theirs):
        if not end.closed:
            end.close()


def test_a_message_arrives_as_it_was_sent(pair: Pair) -> None:
    ours, theirs = pair
    for message in (Ran(1.5), Ready(), Broken(Cause.RUNTIME, "no" * 10_000)):
        send(theirs, message)
        assert receive(ours, Ran | Ready | Broken, 5) == message


def test_half_a_message_does_not_hang(pair: Pair) -> None:
    ours, theirs = pair
    for start in (b"\0", struct.pack("!i", 100), b"\x01"):
        os.write(theirs.fileno(), start)
        with pytest.raises(Unanswered):
            receive(ours, Ran, 0.1)
        ours, theirs = make_pair()


def test_the_other_end_gone_is_the_end(pair: Pair) -> None:
    ours, theirs = pair
    os.write(theirs.fileno(), struct.pack("!i", 100))
    theirs.close()
    with pytest.raises(EOFError):
        receive(ours, Ran, 5)


@pytest.mark.parametrize("length", [-1, LARGEST_BYTES + 1, 2**31 - 1])
def test_a_length_that_no_message_has_is_none(pair: Pair, length: int) -> None:
    ours, theirs = pair
    os.write(theirs.fileno(), struct.pack("!i", length))
    with pytest.raises(msgspec.MsgspecError):
        receive(ours, Ran, 5)


@given(st.binary(max_size=300))
def test_garbage_is_refused_and_nothing_else(garbage: bytes) -> None:
    ours, theirs = make_pair()
    with ours, theirs:
        os.write(theirs.fileno(), struct.pack("!i", len(garbage)) + garbage)
        try:
            answer = receive(ours, Ran | Broken, 5)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        assert isinstance(answer, Ran | Broken)


@pytest.mark.parametrize("elapsed_ms", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_time_that_is_none_puts_a_side_out(pair: Pair, elapsed_ms: float) -> None:
    ours, theirs = pair
    send(theirs, Ran(elapsed_ms))
    side = ServedSide("contestant", ours, _ended_process(), 5.0, cpu=False)
    with pytest.raises(Out, match="is said to have taken") as out:
        side.run()
    assert out.value.cause is Cause.CLOCK


def _ended_process() -> int:
    """A PID of no process, so that signals go nowhere."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


class Leaving(ServedSide):
    """A side with a process that is gone as soon as it has answered."""

    def stop(self) -> None:
        os.waitpid(self.pid, 0)


def test_who_breaks_and_leaves_is_known_by_what_it_said(pair: Pair) -> None:
    """On a CPU the second clock is the process's own, and cannot be read any more."""
    ours, theirs = pair
    pid = os.fork()
    if pid == 0:
        os.setsid()
        receive(theirs, Prepare)
        send(theirs, Broken(Cause.RUNTIME, "illegal instruction"))
        os._exit(0)
    with pytest.raises(Out, match="illegal instruction") as out:
        Leaving("contestant", ours, pid, 5.0, cpu=True).prepare((), "host")
    assert out.value.cause is Cause.RUNTIME


def test_a_changed_message_has_another_version() -> None:
    """Two interpreters may run two copies of this code; only the version tells them apart."""

    class Verdict(Message, frozen=True):
        trial: Trial

    class Longer(Message, frozen=True):
        trial: Trial
        more: float = 0.0

    told = [_spoken(each).partition("[")[2] for each in (Verdict, Longer)]
    assert told[0] != told[1]
    assert all(field in told[0] for field in Trial.__struct_fields__), "structs within count too"
    assert all(each.value in _spoken(Broken) for each in Cause)
    assert Confined(1, Confinement.LIMITS).version != VERSION
    said = "from harness.judge.messages import VERSION; print(VERSION)"
    again = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert again.stdout.strip() == VERSION
