"""What is written is there whole or not at all, and what a killed process left is removed by a later one."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from harness.machine import files

KILLED = """
import os, signal
from harness.machine import files
with files.scratch("test") as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_file_is_written_with_its_folders_and_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "script.sh"
    files.put(path, b"one", 0o755)
    files.put(path, b"two", 0o755)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o755
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    files.put(path, b"old")

    def full(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InfrastructureError, match=r"page\.html cannot be written: No space left.*free some space"):
        files.put(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_on_the_way_is_said_in_one_line(tmp_path: Path) -> None:
    files.put(tmp_path / "taken", b"a file")
    with pytest.raises(InfrastructureError, match=r"taken/page\.html cannot be written: "):
        files.put(tmp_path / "taken" / "page.html", b"new")


def test_a_scratch_folder_goes_with_its_use() -> None:
    with files.scratch("test") as folder:
        (folder / "file").touch()
    assert not folder.exists()


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    left = Path(done.stdout.strip())
    assert left.parent == tmp_path
    assert left.is_dir()
    mine = files.make_scratch("mine")
    (tmp_path / f"{files.SCRATCH}{os.getpid()}").mkdir()
    (tmp_path / f"{files.SCRATCH}notes").mkdir()
    files.sweep()
    assert not left.exists()
    assert mine.is_dir()
    assert len(list(tmp_path.iterdir())) == 3
