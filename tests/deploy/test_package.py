"""The package that pip installs claims one name, and has all that its commands read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.checkout import ROOT
from tests.installed import Installed, install

OUTERMOST = ("harness", "kernels", "baselines")
ASKS = """
import importlib.util
from pathlib import Path
names = ("harness", "kernels", "baselines")
claimed = [name for name in names if importlib.util.find_spec(name)]
import tilebench_harness
homes = {Path(importlib.import_module(name).__file__).parents[1] for name in names}
print(claimed, homes == {tilebench_harness.HOME})
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("installed"))


def test_a_wheel_holds_one_package_with_all_files_of_the_three(installed: Installed) -> None:
    names = [each.relative_to(installed.site) for each in installed.site.rglob("*") if each.is_file()]
    assert {each.parts[0] for each in names if ".dist-info" not in each.parts[0]} == {"tilebench_harness"}
    held = {each.relative_to("tilebench_harness") for each in names if each.parts[0] == "tilebench_harness"}
    files = (file.relative_to(ROOT) for each in OUTERMOST for file in (ROOT / each).rglob("*") if file.is_file())
    left_out = {str(each.parent) for each in files if each not in held and each.parent.name != "__pycache__"}
    assert left_out == {"kernels/front/measured"}  # what models are fitted to


def test_its_three_names_are_claimed_where_it_is_imported(installed: Installed, tmp_path: Path) -> None:
    told = _run(installed.python, installed.variables, tmp_path, "-c", ASKS)
    assert told.stdout == "[] True\n", told.stderr


def test_a_file_is_run_by_hand(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "iter001_by_hand.py").write_text("import sys, harness.iteration\nprint(__name__, sys.argv[1:])\n")
    words = ("-m", "tilebench_harness", "iter001_by_hand.py", "more")
    told = _run(installed.python, installed.variables, tmp_path, *words)
    assert told.stdout == "__main__ ['more']\n", told.stderr


def test_in_a_checkout_the_command_is_the_same() -> None:
    told = _run(Path(sys.executable), {}, ROOT, "-m", "tilebench_harness", "--version")
    assert told.returncode == 0, told.stderr


def _run(python: Path, variables: dict[str, str], where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    own = {name: each for name, each in os.environ.items() if name != "PYTHONPATH"} | variables
    return subprocess.run([python, *words], cwd=where, env=own, capture_output=True, text=True, check=False)
