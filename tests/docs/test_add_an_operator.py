"""The page *add an operator*: every command runs in a repository outside this one, and its example is an operator."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.authoring.repository import init, new_operator
from harness.errors import UsageError
from harness.operators import adopt
from tests.harness.checkout import ROOT, Checkout
from tests.harness.operators import test_operators as shared
from tests.installed import install

PAGE = (ROOT / "docs" / "how-to" / "add-an-operator.md").read_text()
KEYS = ("rownorm_f32fp32_48x64", "rownorm_bf16fp32_48x64")
LINES_MAX = 40


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Path]:
    """The operator that the page adds."""
    init(tmp_path)
    operator, _ = new_operator(tmp_path, "rownorm")
    adopt(tmp_path)
    yield operator
    adopt(ROOT)


def test_the_page_shows_what_new_operator_writes(example: Path) -> None:
    (shown,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert shown == example.read_text()
    baseline = example.parents[1] / "baselines" / "torch_rownorm.py"
    assert len(f"{shown}{baseline.read_text()}".splitlines()) <= LINES_MAX
    with pytest.raises(UsageError, match="is there already; nothing was overwritten"):
        new_operator(example.parents[1], "rownorm")


@pytest.mark.parametrize("name", ["matmul", "sdpa", "products", "Norm", "row_norm", "1norm", "class", ""])
def test_a_name_that_no_operator_may_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"operator '{name}' is "):
        new_operator(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", KEYS)
def test_its_example_passes_the_tests_of_shipped_operators(example: Path, key: str) -> None:
    shared.test_the_library_passes_and_one_wrong_element_does_not(key, exact=False)
    shared.test_the_library_passes_the_corners_and_one_wrong_row_does_not(key)
    shared.test_shapes_and_work_are_positive_and_consistent(key)


@pytest.mark.slow
def test_every_command_runs_and_the_kernel_passes(checkout: Checkout, tmp_path: Path) -> None:
    """An installed package judges, with no checkout in sight."""
    (tmp_path / "bin").mkdir()
    _, python, variables = install(tmp_path / "package")
    (tmp_path / "bin" / "tilebench").write_text(f'#!/bin/sh\nexec {python} -m tilebench_harness "$@"\n')
    (tmp_path / "bin" / "tilebench").chmod(0o755)
    path = os.pathsep.join((str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = checkout.environment() | variables | {"PATH": path}
    del environment["TILEBENCH_ROOT"]
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "ratio to torch.rownorm" in done.stdout and "memory-bound" in done.stdout
    assert "passed    rownorm_f32fp32_64x256 me iter001_row_per_block" in done.stderr
