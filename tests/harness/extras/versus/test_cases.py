"""Cases of trees made elsewhere: which functions they are."""

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.extras.versus.cases import cases


@pytest.fixture
def foreign_tree(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": "",
        "examples/gemm/regression_gemm.py": "def regression_a(): ...\ndef helper(): ...\ndef regression_b(): ...\n",
        "benchmarks/ops/bench_bmm.py": "def test_bmm(): ...\nclass Workload:\n    def test_no(self): ...\n",
        "examples/gemm/example_gemm.py": "def regression_no(): ...\n",
        "examples/old/regression_old.py": "print 'Python 2'\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_cases_are_the_functions_that_their_own_runners_call(foreign_tree: Path) -> None:
    found, unreadable = cases(foreign_tree)
    assert [str(each) for each in found] == [
        "benchmarks/ops/bench_bmm/test_bmm",
        "examples/gemm/regression_gemm/regression_a",
        "examples/gemm/regression_gemm/regression_b",
    ]
    (line,) = unreadable
    assert "regression_old.py cannot be read" in line
    below, _ = cases(foreign_tree / "benchmarks")
    assert [each.root for each in below] == [foreign_tree.resolve()]


def test_a_tree_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no regression_\*\.py with a function regression_\*"):
        cases(tmp_path)
