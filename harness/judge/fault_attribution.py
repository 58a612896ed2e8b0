"""Blame: whether an iteration failed by itself, or because the machine under it did."""

import shutil
import tempfile
from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from harness.errors import InfrastructureError
from harness.judge.candidate import Candidate, Rejection
from harness.judge.facts.gpu import Gpu
from harness.judge.processes import Contestant
from harness.machine import nvml
from harness.records.results import Cause

# Outcomes that a fault of the machine can look like; a wrong result or a trick is never the machine's.
DOUBTFUL: Final = frozenset(
    {Cause.LOAD, Cause.COMPILE, Cause.RUNTIME, Cause.CRASH, Cause.TIMEOUT, Cause.OUT_OF_DISK, Cause.REFEREE}
)
LEAST_FREE_BYTES: Final = 16 << 20
CONTINUES: Final = "the same command measures it again"


class Outcome(Protocol):
    """What is recorded of something that was judged."""

    @property
    def cause(self) -> Cause | None: ...


Judged = TypeVar("Judged", bound=Outcome)


def may_pass(cause: Cause | None, gpu: Gpu) -> bool:
    """Whether it can be the machine's fault, for once: another's use of the device, or a build that opens it.

    Or a pair of processes of which one wakes late, as few do on a GPU; on a CPU such are measured several times anyway.
    """
    return cause is Cause.REFEREE or (cause is Cause.CLOCK and not gpu.is_cpu)


def standing(outcomes: Iterable[Judged], gpu: Gpu) -> Judged | None:
    """Of outcomes of one thing, newest first, the one that another measurement would only repeat; None without.

    The machine's faults are none, and what the clock of a GPU rejects is one when it did so twice.
    """
    held = (each for each in outcomes if each.cause is not Cause.REFEREE)
    newest, before = next(held, None), next(held, None)
    if newest is not None and may_pass(newest.cause, gpu) and (before is None or before.cause is not Cause.CLOCK):
        return None
    return newest


def judge(candidate: Candidate, rejection: Rejection) -> Rejection:
    """The rejection, or in its place one of what the iteration cannot help, which is tried again.

    Raises InfrastructureError where the others would fare no better: the device is gone, or there is no room.
    """
    if rejection.cause not in DOUBTFUL:
        return rejection
    lasting = nvml.lost(candidate.device) or _no_room(candidate.contestant)
    if lasting is not None:
        raise InfrastructureError(f"{candidate.iteration}: {lasting}")
    passing = _died(candidate)
    return rejection if passing is None else Rejection(Cause.REFEREE, f"{passing}; {CONTINUES}")


def _died(candidate: Candidate) -> str | None:
    """Which of the harness's own has died, or has lost its ground."""
    contestant, opponent = candidate.contestant, candidate.opponent
    if any(side is not None and side.orphaned for side in (contestant, opponent)):
        return "the forkserver, which all processes of a run come from, was killed"
    if opponent is not None and not opponent.alive:
        return f"the baseline's process {opponent.fate()}"
    if contestant is not None and not contestant.scratch.is_dir():
        return f"its scratch folder under {tempfile.gettempdir()} was removed while it ran"
    return None


def _no_room(contestant: Contestant | None) -> str | None:
    """Whether the disk of the scratch folders is full, and not by this contestant."""
    folder = tempfile.gettempdir()
    if contestant is None or shutil.disk_usage(folder).free > LEAST_FREE_BYTES:
        return None
    taken_bytes, _ = contestant.scratch_use()
    if taken_bytes > LEAST_FREE_BYTES:
        return None
    return f"{folder} is full; free some space, or set TMPDIR to a disk with more; then {CONTINUES}"
