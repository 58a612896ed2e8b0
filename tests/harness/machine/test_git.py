"""git's own last line reaches the user, with the folder that it is about."""

from pathlib import Path

import pytest

from harness.errors import InfrastructureError, UsageError
from harness.machine.git import git


def test_its_output_comes_as_it_is(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert git(tmp_path, "rev-parse", "--is-inside-work-tree") == b"true\n"


@pytest.mark.parametrize("fault", [InfrastructureError, UsageError])
def test_a_failure_names_folder_and_reason(tmp_path: Path, fault: type[InfrastructureError | UsageError]) -> None:
    with pytest.raises(fault, match=rf"{tmp_path}: git log: .*not a git repository"):
        git(tmp_path, "log", fault=fault)


def test_without_git_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="install git"):
        git(tmp_path, "log", fault=UsageError)
