"""Files written whole or not at all, and scratch folders, which a later run removes after a kill."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from harness.errors import InfrastructureError, explained

SCRATCH: Final = "tilebench-run-"


def put(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a whole file, or leave the old one. Raises InfrastructureError."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.chmod(mode)
        unfinished.replace(path)
    except OSError as error:
        with suppress(OSError):  # a folder on the way may be a file
            unfinished.unlink()
        raise InfrastructureError(f"{path} cannot be written: {explained(error)}") from error


@contextmanager
def scratch(use: str) -> Iterator[Path]:
    """A scratch folder, removed afterwards. Also sweeps folders of dead processes."""
    sweep()
    folder = make_scratch(use)
    try:
        yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder and all below it, however deep: rm does not recurse in Python's way, nor follow links.

    A contestant may have taken its own rights to a folder away.
    """
    for command in (("rm", "-rf"), ("chmod", "-R", "u+rwx"), ("rm", "-rf")):
        subprocess.run([*command, "--", folder], stderr=subprocess.DEVNULL, check=False)
        if not folder.exists():
            return


def make_scratch(use: str, place: str | None = None) -> Path:
    """A scratch folder with this process's number in its name; ``sweep`` removes it when the process is dead."""
    return Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-{use}-", dir=place))


def sweep(*places: str) -> None:
    """Remove the scratch folders of processes that were killed."""
    for folder in (each for place in {tempfile.gettempdir(), *places} for each in Path(place).glob(f"{SCRATCH}*")):
        owner = folder.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            remove(folder)


def require_writable(folder: Path) -> None:
    """Raise InfrastructureError if no file can be written there, before what would be written takes minutes."""
    present = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(present, os.W_OK):
        raise InfrastructureError(f"{folder} cannot be written: mount it writable, or mind its permissions")
