"""Revisions: records and sources as they were, from git or from files, without touching the working tree."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError
from harness.machine import files
from harness.records.results import Record
from harness.records.store import decode, read

LAST: Final = "last"
PREVIOUS: Final = "previous"


def records(tree: Tree, gpu: str, named: str) -> tuple[list[Record], list[str]]:
    """The records that a name stands for, and what could not be read.

    ``last`` is the newest of each iteration in the tree and ``previous`` the one before; else a file or a folder of
    records, or a git revision. Raises UsageError where it is none of these.
    """
    if named in (LAST, PREVIOUS):
        return _newest(tree, gpu, back=0 if named == LAST else 1)
    path = Path(named)
    if named and path.exists():  # Path("") is the working folder
        return _joined(read(file, Record) for file in (_within(path) if path.is_dir() else [path]))
    commit = resolve(tree.root, named)
    folder = tree.short(tree.folder(gpu) / "logs")
    names = git(tree.root, "ls-tree", "-r", "--name-only", commit, "--", f"{folder}/").decode().splitlines()
    files_there = [name for name in names if name.endswith("/results.jsonl")]
    if not files_there:
        raise UsageError(f"revision {named} has no records under {folder}")
    return _joined(
        decode(git(tree.root, "show", f"{commit}:{name}"), Record, f"{named}:{name}") for name in files_there
    )


def resolve(root: Path, revision: str) -> str:
    """The commit that a revision names; raises UsageError."""
    try:
        return (
            git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
        )
    except InfrastructureError:
        raise UsageError(
            f"'{revision}' is neither {LAST} nor {PREVIOUS}, nor a file or folder of records, nor a git revision"
        ) from None


def git(root: Path, *words: str) -> bytes:
    """What git prints; raises InfrastructureError with its last line where it fails."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise InfrastructureError("git was not found, and history is in git: install git") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise InfrastructureError(f"git {words[0]}: {said[-1] if said else 'failed'}")
    return done.stdout


@contextmanager
def checked_out(root: Path, commit: str) -> Iterator[Path]:
    """A scratch worktree of a commit; gone afterwards, however it ends."""
    with files.scratch("revision") as folder:
        place = folder / "tree"
        git(root, "worktree", "prune")  # of those that were killed
        git(root, "worktree", "add", "--detach", "--quiet", str(place), commit)
        try:
            yield place
        finally:
            git(root, "worktree", "remove", "--force", str(place))


def _within(folder: Path) -> list[Path]:
    """The files of records in a folder: under ``logs`` where it has that, since a tree keeps other results as well.

    Raises UsageError where there is none.
    """
    found = sorted(folder.rglob("results.jsonl"))
    if not found:
        raise UsageError(f"{folder} holds no results.jsonl")
    return [path for path in found if "logs" in path.relative_to(folder).parts] or found


def _newest(tree: Tree, gpu: str, back: int) -> tuple[list[Record], list[str]]:
    found, problems = _joined(read(file, Record) for file in tree.all_records(gpu))
    measured: dict[tuple[str, str, str], list[Record]] = {}
    for record in found:
        if record.measurement is not None:
            measured.setdefault((record.shape_key, record.model, record.iteration), []).append(record)
    return [each[-1 - back] for each in measured.values() if len(each) > back], problems


def _joined(parts: Iterator[tuple[list[Record], list[str]]]) -> tuple[list[Record], list[str]]:
    found: list[Record] = []
    problems: list[str] = []
    for records, complaints in parts:
        found += records
        problems += complaints
    return found, problems
