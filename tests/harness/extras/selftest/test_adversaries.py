"""Every trick of the samples gets its verdict on this machine's CPU, and every honest control passes."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from harness.cli.app import carry_out
from harness.errors import ExitCode, UsageError
from harness.extras.selftest import adversaries
from harness.extras.selftest.adversaries import AdversaryFinding, samples
from tests.harness.checkout import ROOT
from tests.harness.envelopes import answer

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
    assert "wrong_result, believed 1.50x as fast as the honest one: why" in adversaries.line(gainful)
