"""The real judge calls a slowed kernel slower."""

import subprocess
import sys
from typing import Any

import pytest

from tests.harness.checkout import ROOT
from tests.harness.envelopes import answer

pytestmark = pytest.mark.slow


def found(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "selftest", "--gpu", "cpu", "--sensitivity", "--json", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    finding: dict[str, Any] = answer(done.stdout)["sensitivity"]
    return finding


def test_a_slower_kernel_is_called_slower() -> None:
    """Twice the time, so that no noise of a CPU hides it."""
    finding = found("--runs", "2", "--slower-by", "1")
    assert finding["called_slower"] == len(finding["slowed"]) == 2
    assert 0.4 < finding["seen"] < 0.6
    assert len(finding["again"]) == 2
