"""A scratch checkout, in which a self-test can run the command line without touching the real records."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.tree import Tree

PARTS = ("harness", "kernels", "baselines")


@contextmanager
def checkout(tree: Tree, gpu: str, shape: str | None) -> Iterator[Tree]:
    """A copy of the code and of one problem's sources, if any, without records; removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="tilebench-selftest-") as folder:
        root = Path(folder)
        for part in PARTS:
            shutil.copytree(tree.root / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        copy = Tree(root)
        if shape is not None:
            shutil.copytree(tree.folder(gpu) / "srcs" / shape, copy.folder(gpu) / "srcs" / shape)
        yield copy


def start(tree: Tree, *arguments: str, output: Path | None = None) -> subprocess.Popen[bytes]:
    """Start Python in a scratch checkout, what it prints in a file or nowhere."""
    environment = {**os.environ, "TILEBENCH_ROOT": str(tree.root), "PYTHONPATH": _python_path(tree)}
    stream = output.open("ab") if output else subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=tree.root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stream,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _python_path(tree: Tree) -> str:
    return os.pathsep.join([str(tree.root), *filter(None, [os.environ.get("PYTHONPATH")])])
