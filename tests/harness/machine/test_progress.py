"""Progress: without a terminal, lines say how far a run is, and not more often than they should."""

import pytest

from harness.machine import progress
from harness.machine.progress import how_far, reporting


@pytest.mark.parametrize(
    ("done", "spent_s", "says"),
    [
        (1, 2.0, "1 of 11 done"),
        (4, 8.0, "4 of 11 done; about 14 s left"),
        (10, 3000.0, "10 of 11 done; about 5 min left"),
    ],
)
def test_the_rest_is_as_long_as_what_is_done(done: int, spent_s: float, says: str) -> None:
    assert how_far(done, 11, spent_s) == says


@pytest.mark.parametrize(("pause_s", "told"), [(0.0, 1), (3600.0, 0)])
def test_a_log_says_how_far_a_run_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, pause_s: float, told: int
) -> None:
    monkeypatch.setattr(progress, "PAUSE_S", pause_s)
    with reporting(2) as reporter:
        reporter.finished("one of several attempts", advance=False)
        reporter.finished("first")
        reporter.finished("second")
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if " done" not in line] == ["one of several attempts", "first", "second"]
    assert [line for line in said if " done" in line] == ["1 of 2 done"] * told
