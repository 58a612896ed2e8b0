"""Every trick of the samples gets its verdict on this machine's CPU, and every honest control passes."""

import json
import subprocess
import sys
from typing import Any

import pytest

from harness.selftest.adversaries import samples
from tests.harness.checkout import ROOT

SAMPLES = samples(ROOT, cpu=True)
TRICKS = 30
ON_A_GPU_ONLY = {8}  # a CPU has no streams

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def findings() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "selftest", "--adversaries", "--gpu", "cpu", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return {finding["name"]: finding for finding in json.loads(done.stdout)}


@pytest.mark.parametrize("name", [sample.path.stem for sample in SAMPLES])
def test_a_sample_gets_its_verdict(findings: dict[str, Any], name: str) -> None:
    finding = findings[name]
    assert finding["verdict"] in finding["expected"], finding
    assert not finding["tree_changed"], finding
    assert (finding["reason"] != "") == (finding["ratio"] is None)


def test_every_trick_of_the_list_is_there() -> None:
    everywhere = {sample.trick for cpu in (True, False) for sample in samples(ROOT, cpu=cpu)}
    assert everywhere - {0} == set(range(1, TRICKS + 1))
    assert {sample.trick for sample in SAMPLES} == everywhere - ON_A_GPU_ONLY
