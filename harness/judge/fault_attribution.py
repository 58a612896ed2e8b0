"""Whether an iteration failed by itself, or because the machine under it did."""

import shutil
import tempfile
from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from harness.errors import InfrastructureError
from harness.judge.candidate import Candidate, Rejection
from harness.judge.facts.gpu import Gpu
from harness.judge.processes import BaselineProcess, Contestant
from harness.machine import nvml
from harness.records.base import Cause

# A fault of the machine can look like one of these. A wrong result or a trick is never the machine's.
DOUBTFUL: Final = frozenset(
    {Cause.LOAD, Cause.COMPILE, Cause.RUNTIME, Cause.CRASH, Cause.TIMEOUT, Cause.OUT_OF_DISK, Cause.REFEREE}
)
# On a GPU one process may resume late after SIGCONT, and the referee may be held up while it looks at the outputs.
RETRIED_ON_A_GPU: Final = (Cause.CLOCK, Cause.OVERLAP)
MIN_FREE_BYTES: Final = 16 << 20
CONTINUES: Final = "the same command measures it again"


class HasCause(Protocol):
    """A record of something that was judged."""

    @property
    def cause(self) -> Cause | None: ...


Judged = TypeVar("Judged", bound=HasCause)


def is_retried(cause: Cause | None, gpu: Gpu) -> bool:
    """Whether the machine may be at fault, so that a run judges the iteration once more.

    A CPU's clock rejection is not retried, because it has been measured several times already.
    """
    return cause is Cause.REFEREE or (cause in RETRIED_ON_A_GPU and not gpu.is_cpu)


def standing(outcomes: Iterable[Judged], gpu: Gpu) -> Judged | None:
    """The outcome that another measurement would only repeat; ``outcomes`` are of one thing, newest first.

    Faults of the machine are passed over. What a GPU retries stands only when two such came in a row.
    """
    held = (each for each in outcomes if each.cause is not Cause.REFEREE)
    newest, before = next(held, None), next(held, None)
    again = newest is not None and is_retried(newest.cause, gpu)
    return None if again and (before is None or not is_retried(before.cause, gpu)) else newest


def attribute(candidate: Candidate, rejection: Rejection) -> Rejection:
    """The rejection, or one with Cause.REFEREE if the machine is at fault.

    Raises InfrastructureError if every other iteration would fail too: the device is gone, or the disk is full.
    """
    if rejection.cause not in DOUBTFUL:
        return rejection
    lasting = nvml.lost(candidate.device) or _no_room(candidate.contestant)
    if lasting is not None:
        raise InfrastructureError(f"{candidate.iteration}: {lasting}")
    if rejection.cause is Cause.REFEREE and candidate.baseline is not None:
        candidate.baseline.await_end()  # the referee may have told of it first
    passing = _died(candidate)
    return rejection if passing is None else Rejection(Cause.REFEREE, f"{passing}; {CONTINUES}")


def _died(candidate: Candidate) -> str | None:
    """Which of the harness's own processes or folders is gone."""
    contestant, baseline = candidate.contestant, candidate.baseline
    if any(side is not None and side.orphaned for side in (contestant, baseline)):
        return "the forkserver, which all processes of a run come from, was killed"
    if isinstance(baseline, BaselineProcess) and (told := baseline.trouble()):
        return f"the baseline failed: {told}"
    if baseline is not None and baseline.crashed:
        return f"the {baseline.role}'s process {baseline.fate()}"
    if contestant is not None and not contestant.scratch.is_dir():
        return f"its scratch folder under {tempfile.gettempdir()} was removed while it ran"
    return None


def _no_room(contestant: Contestant | None) -> str | None:
    """The complaint if the disk of the scratch folders is full, unless this contestant filled it."""
    folder = tempfile.gettempdir()
    if contestant is None or shutil.disk_usage(folder).free > MIN_FREE_BYTES:
        return None
    taken_bytes, _ = contestant.scratch_use()
    if taken_bytes > MIN_FREE_BYTES:
        return None
    return f"{folder} is full; free some space, or set TMPDIR to a disk with more; then {CONTINUES}"
