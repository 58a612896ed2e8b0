"""A scratch checkout, in which a self-test can run the command line without touching the real records."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.catalog.tree import Tree
from harness.machine import files

PARTS = ("harness", "kernels", "baselines")


@contextmanager
def checkout(tree: Tree, gpu: str, shape: str | None) -> Iterator[Tree]:
    """A copy of the code and of one problem's sources, if any, without records; removed afterwards."""
    with files.scratch("selftest") as root:
        for part in PARTS:
            shutil.copytree(tree.root / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        copy = Tree(root)
        if shape is not None:
            shutil.copytree(tree.folder(gpu) / "srcs" / shape, copy.folder(gpu) / "srcs" / shape)
        scratch_folder(copy).mkdir()
        yield copy


def scratch_folder(copy: Tree) -> Path:
    """Where its commands have their temporary files."""
    return copy.root / "tmp"


def start(tree: Tree, *arguments: str, output: Path | None = None, quiet: bool = False) -> subprocess.Popen[bytes]:
    """Start Python in a scratch checkout, what it prints in a file or nowhere; ``quiet`` drops what is on stderr."""
    own = {"TILEBENCH_ROOT": str(tree.root), "PYTHONPATH": tree.python_path, "TMPDIR": str(scratch_folder(tree))}
    environment = os.environ | own
    stream = output.open("ab") if output else subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=tree.root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stream,
        stderr=subprocess.DEVNULL if quiet else subprocess.STDOUT,
        start_new_session=True,
    )


def processes(tree: Tree) -> int:
    """How many processes that a scratch checkout started are alive."""
    mark = f"TILEBENCH_ROOT={tree.root}".encode()
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                count += not zombie and mark in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
    return count
