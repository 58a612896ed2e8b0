"""The tutorial: every command of the page runs in a copy of the checkout and ends in a KEPT row."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.checkout import Checkout

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial" / "first-kernel.md"
SHAPE = "matmul_f32fp32_256x256x256"


def commands() -> list[str]:
    """The shell blocks of the page, in their order."""
    return re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def prepared(checkout: Checkout) -> None:
    """Add the files of ``make``, and a ``.venv`` that runs this interpreter and counts as set up."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-cuda.lock"):
        shutil.copy2(ROOT / name, checkout.root / name)
    scripts = checkout.root / ".venv" / "bin"
    scripts.mkdir(parents=True)
    for name, words in (("python", ""), ("tilebench", "-m harness ")):
        (scripts / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n')
        (scripts / name).chmod(0o755)
    for stamp in ("runtime.stamp", "dev.stamp"):
        (checkout.root / ".venv" / stamp).touch()


def test_the_page_has_no_command_that_the_test_would_miss() -> None:
    fences = re.findall(r"^```(\w*)$", PAGE.read_text(), re.MULTILINE)
    assert set(fences) == {"sh", ""}
    assert len(commands()) == fences.count("sh") >= 8


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_runs_and_the_last_row_is_kept(checkout: Checkout) -> None:
    prepared(checkout)
    for block in commands():
        done = subprocess.run(
            ["bash", "-e", "-c", block],
            cwd=checkout.root,
            env={**checkout.environment(), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    ladder = {
        step["number"]: step
        for step in checkout.json("next", "--gpu", "cpu", "--shape", SHAPE, "--model", "me")["iterations"]
    }
    assert [ladder[number]["status"] for number in (1, 2, 3)] == ["passed"] * 3
    assert ladder[1]["ratio"] < ladder[2]["ratio"]
    assert ladder[2]["decision"] == "KEEP"
