"""The body of a child process reports a failure to its parent, and always ends the process."""

import sys
from multiprocessing.connection import Connection

import pytest

from harness.catalog import gpus
from harness.errors import described
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.facts.problem import parse_shape_key
from harness.judge.messages import Trouble, send
from harness.judge.processes import UNLIMITED_BYTES, Ended, Worker, start_forkserver
from tests.harness.checkout import ROOT

BRIEF = Brief(ROOT, parse_shape_key("matmul_f32fp32_16x16x16"), gpus.find("cpu"), None)


def told(error: BaseException) -> Trouble:
    return Trouble(described(error))


def answers(brief: Brief, parent: Connection) -> None:
    with child_body(brief, parent, told):
        send(parent, Trouble("an answer"))


def raises(brief: Brief, parent: Connection) -> None:
    with child_body(brief, parent, told):
        raise ValueError("the reason")


def leaves(brief: Brief, parent: Connection) -> None:
    with child_body(brief, parent, told):
        sys.exit("the reason")


def is_silent(brief: Brief, parent: Connection) -> None:
    with child_body(brief, parent):
        raise ValueError("nobody hears this")


@pytest.fixture(scope="module", autouse=True)
def _forkserver() -> None:
    start_forkserver(BRIEF.gpu, None)


def heard(body: object) -> str:
    assert callable(body)
    worker = Worker("child", body, (BRIEF,), UNLIMITED_BYTES)
    try:
        said: Trouble = worker.hear(Trouble, 60.0)
        assert worker.fate() == "exited with code 0 before it had answered"
        return said.reason
    finally:
        worker.end()


@pytest.mark.parametrize(
    ("body", "expected"),
    [(answers, "an answer"), (raises, "ValueError: the reason"), (leaves, "SystemExit: the reason")],
)
def test_the_parent_hears_an_answer_or_the_failure(body: object, expected: str) -> None:
    assert heard(body) == expected


def test_without_a_message_for_failures_the_process_ends_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Ended, match="exited with code 0"):
        heard(is_silent)
    assert capfd.readouterr().err == ""
