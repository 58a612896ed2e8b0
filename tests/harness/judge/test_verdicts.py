"""Each cause is the iteration's fault, or says that it was not judged."""

import pytest

from harness.judge.candidate import Rejection
from harness.judge.verdicts import status_of, verdict
from harness.records.base import Cause, Status


@pytest.mark.parametrize("cause", Cause)
def test_a_cause_is_a_rejection_or_a_failure(cause: Cause) -> None:
    judged = {
        "contract", "wrong_problem", "wrong_result", "input_changed", "foreign_kernel", "clock", "sabotage", "roofline",
        "source_changed", "not_pinned", "overlap",
    }  # fmt: skip
    failed = {
        "load",
        "compile",
        "does_not_fit",
        "attempts",
        "runtime",
        "crash",
        "timeout",
        "out_of_memory",
        "out_of_disk",
        "referee",
    }
    assert cause in judged | failed, "a new cause: is it the iteration's fault?"
    assert status_of(cause) is (Status.FAILED if cause in failed else Status.REJECTED)


def test_a_verdict_says_what_the_rejection_does() -> None:
    assert verdict(None) == {"status": Status.PASSED, "cause": None, "reason": None}
    found = verdict(Rejection(Cause.CRASH, "it crashed"))
    assert found == {"status": Status.FAILED, "cause": Cause.CRASH, "reason": "it crashed"}
