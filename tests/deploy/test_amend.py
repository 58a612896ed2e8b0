"""An amendment says which judge a changed judge agrees with, and refuses where more than the judge has changed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.checkout import ROOT

pytestmark = [
    pytest.mark.slow,  # a clone, and the hashes of two checkouts
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="it compares commits"),
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The last commit, of which the judge has one function more."""
    root = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(root)], check=True)
    parts = ["harness", "baselines", ".ci", "tuning/cpu/tilelang/srcs"]
    subprocess.run(["git", "-C", str(root), "checkout", "-q", "HEAD", "--", *parts], check=True)
    with (root / "harness" / "judge" / "limits.py").open("a") as file:
        file.write("\n\ndef one_more() -> None: ...\n")
    return root


def amend(root: Path, *operators: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ".ci/amend.py", "HEAD", "a function more", *operators]
    return subprocess.run(
        command, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )


def test_rows_of_the_judge_before_stay_fresh(clone: Path) -> None:
    assert (done := amend(clone)).returncode == 0, done.stderr
    written = json.loads((clone / "harness" / "judge" / "amended.json").read_text())
    head = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert (written["commit"], written["why"]) == (head.stdout.strip(), "a function more")
    assert len(written["same"]) >= 22 and not written["same"].keys() & set(written["same"].values())


def test_a_changed_operator_is_amended_where_it_is_named(clone: Path) -> None:
    with (clone / "harness" / "operators" / "add.py").open("a") as file:
        file.write("\nANOTHER = 1\n")
    amended = clone / "harness" / "judge" / "amended.json"
    before = amended.read_bytes()
    done = amend(clone, "copy")
    assert done.returncode == 1
    assert (
        done.stderr
        == "amend.py: harness/operators/add.py has changed since HEAD, which is more than an amendment of the judge\n"
    )
    assert amended.read_bytes() == before
    assert (done := amend(clone, "add")).returncode == 0, done.stderr
    assert amended.read_bytes() != before


def test_wider_limits_keep_the_time_at_which_they_came(clone: Path) -> None:
    def widened(*operators: str) -> dict[str, str]:
        assert (done := amend(clone, *operators)).returncode == 0, done.stderr
        found: dict[str, str] = json.loads((clone / "harness" / "judge" / "amended.json").read_text())["widened"]
        return found

    first = widened("add+")
    assert list(first) == ["add"]
    assert widened("add+", "copy+")["add"] == first["add"]
    assert widened("add") == {}
