"""A repository of one's own: where it is found, and what it may not name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.machine import repository
from tests.harness.checkout import ROOT


def test_it_is_found_from_every_folder_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEBENCH_ROOT", raising=False)
    (tmp_path / "tilebench.toml").touch()
    (tmp_path / "kernels" / "norm").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "kernels" / "norm")
    assert repository.here() == tmp_path
    monkeypatch.setenv("TILEBENCH_ROOT", str(ROOT))
    assert repository.here() == ROOT


def test_outside_one_the_checkout_serves_and_a_package_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TILEBENCH_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    assert repository.here() == ROOT
    monkeypatch.setattr(repository, "SHIPPED", tmp_path / "site-packages")
    with pytest.raises(UsageError, match=f"{tmp_path} is in no repository with kernels; .*tilebench init"):
        repository.here()


def test_an_iteration_that_is_run_as_a_script_finds_its_families(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tilebench.toml").touch()
    (tmp_path / "kernels" / "rows").mkdir(parents=True)
    (tmp_path / "kernels" / "rows" / "__init__.py").touch()
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "tuning/cpu/tilelang/srcs/shape/me/iter001_rows.py")])
    found = repository.OwnModules().find_spec("kernels.rows", None)
    assert found is not None and found.origin == str(tmp_path / "kernels" / "rows" / "__init__.py")


def test_its_folders_do_not_hide_the_packages_of_an_editable_install(tmp_path: Path) -> None:
    """Such an install is a finder behind Python's own, and a folder on the path is a package to that one."""
    for name in ("baselines", "kernels"):
        (tmp_path / name).mkdir()
    script = """
import importlib.machinery, importlib.util, sys
root, checkout = sys.argv[1:]
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, [checkout])
sys.meta_path.append(Editable)
import harness.machine.repository as repository
repository.ADOPTED.adopt(repository.Path(root), {})
sys.path.insert(0, root)
for name in ("baselines", "kernels"):
    print(importlib.util.find_spec(name).origin)
"""
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, tmp_path, ROOT], capture_output=True, text=True, check=False
    )
    assert found.stdout.split() == [str(ROOT / name / "__init__.py") for name in ("baselines", "kernels")], found.stderr


@pytest.mark.parametrize(
    ("package", "name", "message"),
    [
        ("harness.operators", "operators/matmul.py", "harness.operators.matmul is shipped already"),
        ("baselines", "baselines/torch_add.py", "baselines.torch_add is shipped already"),
        ("kernels", "kernels/gemm/family.py", "kernels.gemm is shipped already"),
        ("kernels", "kernels/__init__.py", "it would hide the shipped package 'kernels'; delete it"),
    ],
)
def test_a_taken_name_is_one_line(tmp_path: Path, package: str, name: str, message: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.touch()
    place = path.parent if path.name == "family.py" else path
    with pytest.raises(UsageError, match=re.escape(f"{place}: {message}")):
        repository.own_modules(tmp_path, package)


def test_an_environment_inside_a_repository_is_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped code may lie below the repository; its hashes are the same wherever it lies."""
    shipped = tmp_path / ".venv" / "site-packages"
    monkeypatch.setattr(repository, "SHIPPED", shipped)
    family, own = shipped / "kernels/gemm/plain.py", tmp_path / "operators/norm.py"
    assert repository.short(tmp_path, family) == "kernels/gemm/plain.py"
    assert repository.package_of(tmp_path, family) == ("kernels", "gemm")
    assert repository.short(tmp_path, own) == "operators/norm.py"
    assert repository.package_of(tmp_path, own) == ("harness", "operators")
