"""Commands that a self-test runs in a scratch copy of the checkout, and the processes that they leave."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psutil

from harness.catalog.tree import Tree
from harness.errors import InfrastructureError
from harness.extras.scratch_tree import copied_tree

POLL_S = 0.05


@contextmanager
def copied_ladder(tree: Tree, gpu: str, shape: str) -> Iterator[Tree]:
    """A copy of the checkout's code and of one problem's iterations, without records; removed afterwards."""
    with copied_tree(tree) as copy:
        shutil.copytree(tree.folder(gpu) / "srcs" / shape, copy.folder(gpu) / "srcs" / shape)
        yield copy


def temporary_folder(copy: Tree) -> Path:
    folder = copy.root / "tmp"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def started(
    copy: Tree, *arguments: str, output: Path | None = None, quiet: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Python in a scratch tree, killed where it has not ended.

    It prints to a file or to nowhere; ``quiet`` drops its stderr.
    """
    own = {"TILEBENCH_ROOT": str(copy.root), "PYTHONPATH": copy.python_path, "TMPDIR": str(temporary_folder(copy))}
    with (
        output.open("ab") if output else nullcontext(subprocess.DEVNULL) as stdout,
        subprocess.Popen(
            [sys.executable, *arguments],
            cwd=copy.root,
            env=os.environ | own,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.DEVNULL if quiet else subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def code_of(process: subprocess.Popen[bytes], longest_s: float) -> int:
    """Its exit code. Raises InfrastructureError where it has not ended in time."""
    try:
        return process.wait(longest_s)
    except subprocess.TimeoutExpired:
        raise InfrastructureError(f"the run was not done after {longest_s:g} s") from None


def processes_left(copy: Tree, wait_s: float) -> int:
    """How many processes of a scratch tree still live after ``wait_s`` seconds; returns at once when none do."""
    until = time.monotonic() + wait_s
    while (alive := _processes(copy)) and time.monotonic() < until:
        time.sleep(POLL_S)
    return alive


def _processes(copy: Tree) -> int:
    """Zombies have no environment."""
    others = (each for each in psutil.process_iter(["environ"]) if each.pid != os.getpid())
    return sum((each.info["environ"] or {}).get("TILEBENCH_ROOT") == str(copy.root) for each in others)
