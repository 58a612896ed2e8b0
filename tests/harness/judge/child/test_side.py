"""A side stands still between its turns, and what undoes a stop is found."""

import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import pytest

from harness.judge.child.side import MOST_OFFENCES, RAN_MS, Out, ServedSide, in_turns
from harness.records.base import Cause
from tests.harness.checkout import ROOT

# It answers each order, and may have a thread that never rests.
PROCESS = """
import sys, threading
from multiprocessing.connection import Connection
from harness.judge.messages import Inspect, Inspected, receive, send

def burn():
    while True:
        pass

channel = Connection(int(sys.argv[1]))
if sys.argv[2] == "busy":
    threading.Thread(target=burn, daemon=True).start()
while True:
    receive(channel, Inspect)
    send(channel, Inspected((), 0, (), ()))
"""


@contextmanager
def served(kind: str, *, cpu: bool) -> Iterator[ServedSide]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", PROCESS, str(theirs.fileno()), kind]
    with subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], start_new_session=True) as process:
        theirs.close()
        with Connection(ours.detach()) as channel:
            yield ServedSide("contestant", channel, process.pid, 60.0, cpu)
        os.killpg(process.pid, signal.SIGKILL)


on_both = pytest.mark.parametrize("cpu", [True, False], ids=["cpu", "gpu"])


@on_both
def test_a_process_that_waits_between_its_turns_is_accepted(cpu: bool) -> None:
    with served("idle", cpu=cpu) as side:
        for _ in range(20):
            side.inspect()
            side.note_that_it_stands()
        assert side.offences <= MOST_OFFENCES


@on_both
def test_a_process_that_runs_again_and_again_while_it_is_stopped_is_sabotage(cpu: bool) -> None:
    with served("busy", cpu=cpu) as side:
        for _ in range(MOST_OFFENCES + 1):
            side.inspect()
            _run_while_stopped(side)
        with pytest.raises(Out, match="ran for .* ms while it should have stood still") as out:
            side.inspect()
        assert out.value.cause is Cause.SABOTAGE


def _run_while_stopped(side: ServedSide) -> None:
    side.note_that_it_stands()
    stood_s = side._cpu_s()
    assert stood_s is not None
    os.killpg(side.pid, signal.SIGCONT)
    while (now_s := side._cpu_s()) is not None and now_s < stood_s + 2 * RAN_MS / 1e3:
        time.sleep(0)


def test_where_the_cpu_time_of_others_is_not_told_a_gpu_is_judged_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServedSide, "_cpu_s", lambda _: None)
    with served("idle", cpu=False) as side:
        side.inspect()
        side.note_that_it_stands()
        side.inspect()
    with served("idle", cpu=True) as side, pytest.raises(Out, match="the process ended"):
        side.inspect()


@pytest.mark.parametrize(
    ("baseline", "contestant", "late_ms"),
    [
        ((0.1, 9.0), (0.2, 9.5), 0.5),  # others use the core: it excuses the wall clock
        ((0.1, 9.0), (5.0, 9.0), 5.0),  # and no lie about CPU time
        ((0.1, -3.0), (0.2, 4.0), 4.0),
        ((math.nan, -0.1), (0.01, -0.2), 0.01),  # on a GPU: where the baseline writes elsewhere
        ((0.0, -0.1), (0.01, 0.4), 0.4),
        ((0.0, 0.3), (0.01, 0.4), 0.1),
    ],
)
def test_a_busy_core_excuses_no_lie(
    baseline: tuple[float, float], contestant: tuple[float, float], late_ms: float
) -> None:
    assert in_turns(baseline, contestant) == pytest.approx((baseline[0], late_ms), nan_ok=True)


class Seen:
    """What the outputs of a block say."""

    timed_ms, ended_s = 1.0, 1.0

    def __init__(self, out_of_order: bool) -> None:
        self.out_of_order = out_of_order

    def look(self) -> None:
        pass


@pytest.mark.parametrize(("every", "refused"), [(20, False), (2, True), (1, True)])
def test_launches_out_of_order_are_refused_once_they_could_move_the_median(every: int, refused: bool) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with Connection(ours.detach()) as channel:
        side = ServedSide("contestant", channel, 0, 1.0, cpu=False)
        blocks = [Seen(number % every == 0) for number in range(60)]

        def watch() -> None:
            for block in blocks:
                side.note_the_end(block)  # type: ignore[arg-type]

        if not refused:
            watch()
            return
        with pytest.raises(Out, match="do not write in their order") as out:
            watch()
        assert out.value.cause is Cause.OVERLAP
