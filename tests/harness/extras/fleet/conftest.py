"""A notebook for a fleet, and the driver as a process of its own."""

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
import pytest

from harness.catalog.tree import Tree
from harness.records.results import Record
from harness.records.store import read
from tests.harness.checkout import MARK

ROOT: Final = Path(__file__).resolve().parents[4]
DRIVE: Final = Path(__file__).with_name("drive.py")
MODEL: Final = "me"
SHAPES: Final = tuple(f"matmul_f32fp32_{size}x8x8" for size in range(8, 72, 8))


@dataclass
class Notebook:
    """A tree of ladders that links to this checkout's code, and what runs on it; every process has its mark."""

    root: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def tree(self) -> Tree:
        return Tree(self.root)

    def ladder(self, shape: str, iterations: int) -> None:
        folder = self.tree.sources("cpu", shape, MODEL)
        folder.mkdir(parents=True)
        for number in range(iterations):
            (folder / f"iter{number:03d}_step.py").write_text(f'"""Step {number}."""\n')

    def environment(self, **variables: str) -> dict[str, str]:
        own = {
            "TILEBENCH_ROOT": str(self.root),
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.root / "tmp"),
            MARK: self.mark,
        }
        return os.environ | own | variables

    def start(self, seats: int = 2, **variables: str) -> subprocess.Popen[bytes]:
        """A driver; it writes to files, which no process that it leaves behind keeps open for us."""
        with (self.root / "stdout.txt").open("wb") as stdout, (self.root / "stderr.txt").open("wb") as stderr:
            return subprocess.Popen(
                [sys.executable, str(DRIVE), str(seats)],
                cwd=self.root,
                env=self.environment(**variables),
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    def run(self, seats: int = 2, **variables: str) -> tuple[int, str]:
        """A driver to its end: its exit code, and what it wrote to stderr."""
        code = self.start(seats, **variables).wait(240)
        return code, self.said

    @property
    def said(self) -> str:
        return (self.root / "stderr.txt").read_text()

    @property
    def printed(self) -> str:
        return (self.root / "stdout.txt").read_text()

    def records(self) -> list[Record]:
        found: list[Record] = []
        for path in self.tree.all_records("cpu"):
            records, problems = read(path, Record)
            assert problems == []
            found += records
        return found

    def names(self) -> list[tuple[str, str]]:
        return sorted((each.shape_key, each.iteration) for each in self.records())

    def processes(self) -> list[psutil.Process]:
        """Every process of this notebook that lives."""
        return [each for each in psutil.process_iter() if self._marked(each)]

    def seats(self) -> list[psutil.Process]:
        """Ray's workers that are seats."""
        return [each for each in self.processes() if re.match(r"ray::Seat", " ".join(_words(each)))]

    def stubs(self) -> list[psutil.Process]:
        return [each for each in self.processes() if any(word.endswith("stub.py") for word in _words(each))]

    def left(self) -> list[str]:
        """What runs left in the temporary folder."""
        return sorted(path.name for path in (self.root / "tmp").iterdir())

    def _marked(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark
        except psutil.Error:
            return False


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    made = Notebook(tmp_path / "tree")
    (made.root / "tmp").mkdir(parents=True)
    for part in ("harness", "kernels", "baselines"):
        (made.root / part).symlink_to(ROOT / part, target_is_directory=True)
    yield made
    for process in made.processes():
        process.kill()
