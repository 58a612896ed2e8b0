"""An assignment: one problem's ladder for one GPU, with the sources and records that it starts from."""

import hashlib
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.catalog.tree import Tree
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.runs import copy_bandwidth

# Parts of tuning/<gpu> with a folder for each problem, and the files that a run reads there.
PARTS: Final = {
    "tilelang/srcs": "*/*.py",
    "tilelang/logs": "**/*.jsonl",
    "tilelang/baseline": "*.jsonl",
    "tilelang/perf": "*/ncu_*.csv",
    "foreign": "*/*.jsonl",
}


@dataclass(frozen=True, slots=True)
class Assignment:
    """``key`` is unique from before it is sent. ``files`` are by their paths below ``tuning/<gpu>``.

    ``words`` are Python's arguments. An entry of ``environment`` that is None removes the variable.
    """

    key: str
    gpu: str
    shape_key: str
    words: tuple[str, ...]
    files: dict[str, bytes]
    environment: dict[str, str | None]


def new_key(shape_key: str) -> str:
    return f"{shape_key}-{uuid.uuid4().hex[:12]}"


def notebook_id(tree: Tree, gpu: Gpu) -> str:
    """What tells this notebook from others on a host that works for several."""
    return hashlib.sha256(f"{socket.gethostname()}:{tree.root}:{gpu.key}".encode()).hexdigest()[:12]


def shapes_of(gpu: Gpu, problem: Problem) -> set[str]:
    """What is measured for a problem: itself, and where memory bounds it a copy, which other problems may share."""
    beside = {copy_bandwidth.companion(problem).shape_key} if gpu.is_memory_bound(problem) else set()
    return {problem.shape_key} | beside


def files_of(tree: Tree, gpu: Gpu, problem: Problem) -> dict[str, bytes]:
    """The sources and records of a problem, and of the copy that is measured beside it where memory bounds it."""
    base = tree.root / "tuning" / gpu.key
    found = (
        path
        for part, form in PARTS.items()
        for shape in sorted(shapes_of(gpu, problem))
        for path in sorted((base / part / shape).glob(form))
        if path.is_file()
    )
    return {str(path.relative_to(base)): _whole_lines(path) for path in found}


def _whole_lines(path: Path) -> bytes:
    """A file as it is; of records the whole lines."""
    content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1] if path.suffix == ".jsonl" else content
