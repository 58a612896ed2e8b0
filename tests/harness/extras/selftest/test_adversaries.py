"""Every trick of the samples gets its verdict on this machine's CPU, and every honest control passes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from harness.catalog import gpus
from harness.cli.app import carry_out
from harness.errors import ExitCode, UsageError
from harness.extras.selftest import adversaries
from harness.extras.selftest.adversaries import AdversaryFinding, Sample, samples
from harness.judge import plausibility
from harness.judge.plausibility import MOST_SUSTAINED_GAIN
from harness.machine.repository import described_at
from harness.records.results import Measurement
from harness.records.sustained import SustainedMeasurement
from tests.harness.checkout import ROOT
from tests.harness.envelopes import answer
from tests.harness.examples import measurement, sustained

SAMPLES = samples(ROOT, cpu=True)
TRICKS = {*range(1, 31), 35}
ON_A_GPU_ONLY = {8}  # a CPU has no streams


@pytest.fixture(scope="module")
def findings() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "selftest", "--adversaries", "--gpu", "cpu", "--no-gains", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return {finding["name"]: finding for finding in answer(done.stdout)["adversaries"]}


@pytest.mark.parametrize("name", [sample.path.stem for sample in SAMPLES])
@pytest.mark.slow
def test_a_sample_gets_its_verdict(findings: dict[str, Any], name: str) -> None:
    finding = findings[name]
    assert finding["verdict"] in finding["expected"], finding
    assert not finding["tree_changed"], finding
    assert (finding["reason"] != "") == (finding["ratio"] is None)


def test_every_trick_of_the_list_is_there() -> None:
    everywhere = {sample.trick for cpu in (True, False) for sample in samples(ROOT, cpu=cpu)}
    assert everywhere - {0} == TRICKS
    assert {sample.trick for sample in SAMPLES} == everywhere - ON_A_GPU_ONLY


def test_some_are_chosen_by_parts_of_their_names() -> None:
    chosen = samples(ROOT, cpu=True, only="hangs, returns_zeros")
    assert [sample.path.stem for sample in chosen] == ["returns_zeros", "hangs"]
    for only in ("hangs,nosuch", "hangs,", " "):
        with pytest.raises(UsageError, match="no sample for this device has such a name"):
            samples(ROOT, cpu=True, only=only)


def test_what_was_found_is_shown_when_it_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = ("hangs", 29, "an idea", ("timeout",), "timeout", "why", None, None, None, None)
    found = AdversaryFinding(*outcome, tree_changed=False)

    def confront(*_: Any, **__: Any) -> Iterator[AdversaryFinding]:
        yield found
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(adversaries, "confront", confront)
        command = ("--adversaries", "--only", "hangs,forks_without_end")
        assert carry_out(["selftest", "--gpu", "cpu", *command]) is ExitCode.INFRASTRUCTURE
    told = capsys.readouterr()
    assert ["29", "hangs", "timeout"] in [row.split()[:3] for row in told.out.splitlines()]
    assert "for the rest: --only hangs\n" in told.err
    assert "stopped; 1 of 2 were tried" in told.err


def test_a_line_says_what_a_rejected_trick_would_have_gained() -> None:
    outcome = ("shortens_k", 22, "an idea", ("wrong_result",), "wrong_result", "why", None, None, None, None)
    assert adversaries.line(AdversaryFinding(*outcome, tree_changed=False)) == "sound  shortens_k: wrong_result: why"
    gainful = AdversaryFinding(*outcome, tree_changed=False, gain=1.5)
    assert "wrong_result, believed 1.5x as fast as the honest one: why" in adversaries.line(gainful)


def test_the_table_fits_80_columns_and_counts_what_is_unsound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    reason = "blocks said to take 5.05 ms took 3.37 ms longer by the referee's clock, at iter001_is_long.py:3"
    outcomes = [
        (name, 4, "an idea", ("clock",), verdict, reason, "a breach", 0.7205, 0.72, 0.721)
        for name, verdict in (("shaves_a_tenth_off_every_block", "clock"), ("lies_now_and_then", "worthless"))
    ]
    shown = adversaries.table([AdversaryFinding(*each, tree_changed=False, gain=9e9) for each in outcomes])
    assert max(map(len, shown.splitlines())) <= 80
    assert "lies_now_and_then: UNSOUND: must be clock" in shown
    assert shown.endswith("2 tricks and 0 controls: 1 unsound")


def at_equal_clocks(ratio: float) -> Measurement:
    return measurement(ratio, ratio)


def at_a_higher_clock(ratio: float) -> SustainedMeasurement:
    return sustained(ratio, mhz=1650, library_mhz=1500)


@pytest.mark.parametrize(
    ("measured", "most"), [(at_a_higher_clock, 0.5 * 1.1 * (1 + MOST_SUSTAINED_GAIN)), (at_equal_clocks, 1.03)]
)
def test_a_gain_that_a_rule_limits_is_bounded_and_a_larger_one_is_believed(
    measured: Callable[[float], Measurement | SustainedMeasurement], most: float
) -> None:
    def verdicts(expected: str) -> list[str]:
        sample, h200 = Sample(ROOT, 35, (expected,)), gpus.find("h200")
        return [adversaries._accepted(sample, measured(ratio), 0.5, h200) for ratio in (0.5, most - 0.001, most + 0.01)]

    assert verdicts("bounded") == ["worthless", "bounded", "believed"]
    assert verdicts("clock") == ["worthless", "believed", "believed"]


@pytest.mark.parametrize("launches", [1, 28])
def test_the_largest_lie_is_what_the_rule_allows(monkeypatch: pytest.MonkeyPatch, launches: int) -> None:
    class Clock:
        def __init__(self, lead_in: object, calls: list[object]) -> None: ...

        def run(self, repetitions: int = 1) -> float:
            return 5.0 * repetitions

    clock = SimpleNamespace(EventClock=Clock, GraphClock=type("GraphClock", (Clock,), {}))
    monkeypatch.setitem(sys.modules, "harness.judge.child.clock", clock)
    monkeypatch.setitem(sys.modules, "kernels.honest", SimpleNamespace(program=None))
    lie = described_at(ROOT / "tests/samples/evil/lies_as_much_as_it_may.py", "HONEST_MS")
    said_ms = clock.EventClock(None, [None] * launches).run(4) / 4

    def complaint(honest_ms: float) -> str | None:
        made = measurement(1.0, 1.0, time_ms=said_ms / launches, launches=launches, late_ms=5.0 - said_ms + honest_ms)
        return plausibility.time(made, gpus.find("h200"))

    assert said_ms < 5.0 and complaint(lie - 1e-6) is None and complaint(lie + 1e-6) is not None
