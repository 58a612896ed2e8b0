"""A small checkout for a test: its own copy of the code, a tuning tree, and the real command line on it."""

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from harness.catalog.tree import Tree
from harness.evidence import toolchain
from harness.records.results import Record
from harness.records.store import read
from tests.harness.envelopes import answer

ROOT: Final = Path(__file__).resolve().parents[2]
TARGETS: Final = frozenset(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SAMPLES: Final = ROOT / "tests" / "samples"
CODE: Final = ("harness", "kernels", "baselines")
SHAPE: Final = "matmul_f32fp32_32x32x32"
MODEL: Final = "tester"
MARK: Final = "TILEBENCH_TEST_MARK"
BUDGET: Final = ("--budget", "0.2")
NEEDS_NVCC: Final = pytest.mark.skipif(
    toolchain.find().nvcc is None, reason="there is no nvcc on this machine; make build installs it"
)

# In the copied code the second clock rejects nothing and blocks may differ: a busy machine delays honest kernels too.
# A measurement has fewer placements, since what is tested is what becomes of it. The judge's own tests and the
# adversaries hold the real rules.
PATIENT: Final = {
    "harness/judge/facts/device_rules.py": {
        "ms=1.0, of_block=0.1": "ms=1e9, of_block=0.1",
        "shortest_block=0.5": "shortest_block=0.0",
    },
    "harness/judge/candidate.py": {"min_placements: int = 8": "min_placements: int = 3"},
}
# Settings of a command that may start no process and may import neither torch nor TileLang.
NEITHER_CHILD_NOR_TORCH: Final = """
import sys
from multiprocessing import forkserver
forkserver.ensure_running = sys.modules["torch"] = sys.modules["tilelang"] = None
"""

# Carries out one command line after another. The children of all come from one forkserver, which imports torch once.
SHELL: Final = """
import json, os, sys
import harness.cli
from harness.cli.app import carry_out
answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    root, words, *files = json.loads(line)
    os.environ["TILEBENCH_ROOT"] = root
    os.chdir(root)
    for number, file in enumerate(files, start=1):
        taken = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(taken, number)
        os.close(taken)
    code = int(carry_out(words))
    sys.stdout.flush()
    sys.stderr.flush()
    print(code, file=answers, flush=True)
"""

BASELINE: Final = '''"""What a user would call instead."""

from baselines import library

PARENT = None
CONFIG = {}


def build(problem):
    return library(problem)
'''

SCALAR: Final = '''"""The plain kernel in tiles of {block}."""

from kernels.cpu import scalar_gemm

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M={block}, block_N={block}, block_K={block})


def build(problem):
    return scalar_gemm(problem, **CONFIG)
'''


def until(condition: Callable[[], object], seconds: float = 300.0) -> bool:
    """Wait for a condition; whether it came true at all."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@cache
def _code() -> tempfile.TemporaryDirectory[str]:
    """The code of every checkout with its bytecode, made once, since each process would compile it anew."""
    made = tempfile.TemporaryDirectory(prefix="tilebench-code-")
    for part in CODE:
        # Without opponents: each would be measured after each ladder. Their own tests add what they need.
        ignored = shutil.ignore_patterns("__pycache__", "opponents")
        shutil.copytree(ROOT / part, Path(made.name, part), ignore=ignored)
    for file, changes in PATIENT.items():
        path = Path(made.name, file)
        text = path.read_text()
        for strict, patient in changes.items():
            assert strict in text, strict
            text = text.replace(strict, patient)
        path.write_text(text)
    compileall.compile_dir(made.name, quiet=2)
    return made


def _copied(source: str, target: str) -> None:
    """Bytecode is only ever replaced whole, so that checkouts on one file system may share its files."""
    try:
        (os.link if source.endswith(".pyc") else shutil.copy2)(source, target)
    except OSError:
        shutil.copy2(source, target)


@dataclass
class Shell:
    """One process that runs commands on checkouts of the same code; it starts at the first, and again after its end."""

    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[str] | None = None

    def run(self, root: Path, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        process = self.process = self.process or self._started()
        assert process.stdin is not None and process.stdout is not None
        files = [self.folder / name for name in ("shell_stdout.txt", "shell_stderr.txt")]
        print(json.dumps([str(root), arguments, *map(str, files)]), file=process.stdin, flush=True)
        code = int(process.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, *(file.read_text() for file in files))

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", SHELL],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def end(self) -> None:
        """End the process, and all that came from it."""
        if self.process is not None:
            started = psutil.Process(self.process.pid).children(recursive=True)
            self.process.communicate()
            self.process = None
            psutil.wait_procs(started, timeout=10)  # the forkserver ends once it notices


@dataclass
class Checkout:
    """A checkout of its own under ``root``; every process it starts carries a mark that finds it again."""

    root: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    shell: "Shell | None" = None

    @classmethod
    def create(cls, root: Path) -> "Checkout":
        shutil.copytree(_code().name, root, copy_function=_copied)
        (root / "tuning").mkdir()
        (root / "tmp").mkdir()
        return cls(root)

    def copied(self, root: Path) -> "Checkout":
        """The same tree again, records and all, to be changed."""
        shutil.copytree(self.root, root)
        return Checkout(root, shell=self.shell)

    def kept_warm(self) -> "Checkout":
        """From now on the commands of this checkout, and of its copies, come from one process."""
        self.shell = Shell(self.root, self.environment())
        return self

    def cool(self) -> None:
        """End that process, unless it is another checkout's."""
        if self.shell is not None and self.shell.folder == self.root:
            self.shell.end()

    @property
    def tree(self) -> Tree:
        return Tree(self.root)

    def folder(self, shape: str = SHAPE, model: str = MODEL, gpu: str = "cpu") -> Path:
        return self.tree.folder(gpu) / "srcs" / shape / model

    def write(self, name: str, source: str, shape: str = SHAPE, model: str = MODEL, gpu: str = "cpu") -> Path:
        path = self.folder(shape, model, gpu) / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        return path

    def ladder(self, blocks: tuple[int, ...] = (16, 32), shape: str = SHAPE, model: str = MODEL) -> None:
        """iter000, and one honest iteration a block size."""
        self.write("iter000_torch_matmul", BASELINE, shape, model)
        for number, block in enumerate(blocks, start=1):
            self.write(f"iter{number:03d}_tiles_of_{block}", SCALAR.format(block=block), shape, model)

    def records(self, shape: str = SHAPE, model: str = MODEL, gpu: str = "cpu") -> list[Record]:
        """What is recorded; every line must be a record."""
        records, problems = read(self.tree.records(gpu, shape, model), Record)
        assert problems == []
        return records

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "TILEBENCH_ROOT": str(self.root),
            "PYTHONPATH": f"{self.tree.python_path}{os.pathsep}{ROOT}",
            "TMPDIR": str(self.root / "tmp"),
            "COLUMNS": "200",
            MARK: self.mark,
        }

    def command(self, *arguments: str, settings: str = "") -> list[str]:
        """The command line; ``settings`` is run in the parent first, to make deadlines short."""
        if settings:
            return [sys.executable, "-c", f"{settings}\nfrom harness.cli import main\nmain()", *arguments]
        return [sys.executable, "-m", "harness", *arguments]

    def run(self, *arguments: str, settings: str = "", seconds: float = 900) -> subprocess.CompletedProcess[str]:
        if self.shell is not None and not settings:
            return self.shell.run(self.root, arguments)
        return subprocess.run(
            self.command(*arguments, settings=settings),
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """The data that a command prints; it must pass."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return answer(done.stdout)

    @contextmanager
    def started(self, *arguments: str, settings: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """The command in the background, in a process group of its own; killed at the end if it still runs.

        It writes to files: a pipe would stay open for as long as a process that it leaves behind.
        """
        with (self.root / "stdout.txt").open("wb") as stdout, (self.root / "stderr.txt").open("wb") as stderr:
            process = subprocess.Popen(
                self.command(*arguments, settings=settings),
                cwd=self.root,
                env=self.environment(),
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    @property
    def said(self) -> str:
        """What the started command wrote to stderr."""
        return (self.root / "stderr.txt").read_text()

    def processes(self) -> list[psutil.Process]:
        """Every process that descends from a command of this checkout and still lives."""
        self.cool()
        return [process for process in psutil.process_iter() if self._marked(process)]

    def leftovers(self) -> list[str]:
        """What commands left in the temporary folder."""
        self.cool()
        return sorted(path.name for path in (self.root / "tmp").iterdir())

    def end(self) -> None:
        """End what a failed test may have left."""
        for process in self.processes():
            process.kill()

    def _marked(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark
        except psutil.Error:
            return False


def one_line(stderr: str) -> str:
    """The last line of stderr: the complaint."""
    assert "Traceback" not in stderr, stderr
    return stderr.strip().splitlines()[-1]
