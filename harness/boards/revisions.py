"""Records and sources of older revisions, from git or from files; the working tree does not change."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError
from harness.machine import files
from harness.machine.git import git
from harness.records.results import Record
from harness.records.store import decode, read
from harness.records.sustained import SustainedRecord

LAST: Final = "last"
PREVIOUS: Final = "previous"
FILES: Final[dict[type, str]] = {Record: "results.jsonl", SustainedRecord: "sustained.jsonl"}
R = TypeVar("R", bound=Record | SustainedRecord)


def records(tree: Tree, gpu: str, named: str, kind: type[R]) -> tuple[list[R], list[str]]:
    """The records of a kind that a name stands for, and complaints about unreadable lines.

    A name is ``last`` (the newest of each iteration), ``previous`` (the one before), a file or folder of records, or a
    git revision. Raises UsageError for any other.
    """
    if named in (LAST, PREVIOUS):
        return _newest(tree, gpu, kind, back=0 if named == LAST else 1)
    path = Path(named)
    if named and path.exists():  # Path("") is the working folder
        return _joined(read(file, kind) for file in (_within(path, FILES[kind]) if path.is_dir() else [path]))
    commit = resolve(tree.root, named)
    folder = tree.short(tree.folder(gpu) / "logs")
    names = git(tree.root, "ls-tree", "-r", "--name-only", commit, "--", f"{folder}/").decode().splitlines()
    files_there = [name for name in names if name.endswith(f"/{FILES[kind]}")]
    if not files_there:
        raise UsageError(f"revision {named} has no records under {folder}")
    texts = ((git(tree.root, "show", f"{commit}:./{name}"), f"{named}:{name}") for name in files_there)
    return _joined(decode(text, kind, place) for text, place in texts)


def resolve(root: Path, revision: str) -> str:
    """The commit that a revision names; raises UsageError."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return git(root, *words).decode().strip()
    except InfrastructureError:
        raise UsageError(
            f"'{revision}' is neither {LAST} nor {PREVIOUS}, nor a file or folder of records, nor a git revision"
        ) from None


@contextmanager
def checked_out(root: Path, commit: str) -> Iterator[Path]:
    """The repository in a scratch worktree of a commit, removed afterwards; it may be a folder of what git holds."""
    with files.scratch("revision") as folder:
        place, within = folder / "tree", git(root, "rev-parse", "--show-prefix").decode().strip()
        git(root, "worktree", "prune")  # worktrees of killed processes
        git(root, "worktree", "add", "--detach", "--quiet", str(place), commit)
        try:
            yield place / within
        finally:
            git(root, "worktree", "remove", "--force", str(place))


def _within(folder: Path, name: str) -> list[Path]:
    """The files of records in a folder, only those under ``logs`` if there are any. Raises UsageError without any."""
    found = sorted(folder.rglob(name))
    if not found:
        raise UsageError(f"{folder} holds no {name}")
    return [path for path in found if "logs" in path.relative_to(folder).parts] or found


def _newest(tree: Tree, gpu: str, kind: type[R], back: int) -> tuple[list[R], list[str]]:
    found, problems = _joined(read(file.with_name(FILES[kind]), kind) for file in tree.all_records(gpu))
    measured: dict[tuple[str, str, str], list[R]] = {}
    for record in found:
        if record.measurement is not None:
            measured.setdefault(record.key, []).append(record)
    return [each[-1 - back] for each in measured.values() if len(each) > back], problems


def _joined(parts: Iterator[tuple[list[R], list[str]]]) -> tuple[list[R], list[str]]:
    taken = list(parts)
    # Where an opponent ran in the library's place, the ratio is not to the library.
    found = [each for records, _ in taken for each in records if getattr(each, "opponent", None) is None]
    return found, [each for _, problems in taken for each in problems]
