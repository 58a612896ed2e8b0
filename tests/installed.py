"""tilebench as users install it: a wheel of the checkout, outside of it."""

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import NamedTuple

from tests.harness.checkout import ROOT

SOURCES = ("harness", "kernels", "baselines", "deploy/tilebench_harness")
FILES = ("pyproject.toml", "setup.py", "LICENSE")


def wheel(folder: Path) -> Path:
    """Build the wheel in a folder."""
    source = folder / "source"
    for each in SOURCES:
        shutil.copytree(ROOT / each, source / each, ignore=shutil.ignore_patterns("__pycache__"))
    for each in FILES:
        shutil.copy(ROOT / each, source)
    options = ("-q", "--no-deps", "--no-build-isolation", "-w", str(folder))
    command = [sys.executable, "-m", "pip", "wheel", *options, str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


class Installed(NamedTuple):
    """A folder with the unpacked wheel, an interpreter that has it, and the variable that this needs."""

    site: Path
    python: Path
    variables: dict[str, str]


def install(folder: Path) -> Installed:
    """Install the wheel in a folder.

    The interpreter is the one below this environment, with this one's packages: a path of ``PYTHONPATH`` is not read
    for what an editable install leaves in it.
    """
    site = folder / "site"
    zipfile.ZipFile(wheel(folder)).extractall(site)
    below = Path(getattr(sys, "_base_executable", sys.executable))
    return Installed(site, below, {"PYTHONPATH": f"{site}:{sysconfig.get_path('purelib')}"})
