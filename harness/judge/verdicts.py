"""The verdict on an iteration: passed, or by the cause of its rejection failed or rejected."""

from typing import Any, Final

from harness.judge.candidate import Rejection
from harness.records.base import Cause, Status

# With these an iteration was not judged; any other cause says that it was, and is wrong.
NOT_JUDGED: Final = frozenset(
    {
        *(Cause.LOAD, Cause.COMPILE, Cause.DOES_NOT_FIT, Cause.ATTEMPTS, Cause.RUNTIME, Cause.CRASH),
        *(Cause.TIMEOUT, Cause.OUT_OF_MEMORY, Cause.OUT_OF_DISK, Cause.REFEREE),
    }
)


def status_of(cause: Cause | None) -> Status:
    if cause is None:
        return Status.PASSED
    return Status.FAILED if cause in NOT_JUDGED else Status.REJECTED


def verdict(rejection: Rejection | None) -> dict[str, Any]:
    """The fields of a record that say how an iteration fared."""
    cause, reason = (None, None) if rejection is None else (rejection.cause, rejection.reason)
    return {"status": status_of(cause), "cause": cause, "reason": reason}
