"""Commands that a message may name: safe to run as printed, in the environment of this program."""

import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from harness.machine.repository import SHIPPED

PROGRAM: Final = "tilebench"
DISTRIBUTION: Final = "tilebench-harness"  # `tilebench` is another project's in the package index


def installed(name: str) -> str | None:
    """The version of a distribution; None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def program() -> str:
    """What calls this program from a shell here: its name where the shell finds it, else its file or its module."""
    own, found = Path(sys.executable).with_name(PROGRAM), shutil.which(PROGRAM)
    if not own.is_file():  # pip may have put it elsewhere, as for one user
        return PROGRAM if found else shlex.join((sys.executable, "-m", "harness"))
    if found == str(own):
        return PROGRAM
    return shlex.quote(str(own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own))


def same_command() -> str:
    """The command line of this program, to be run once more."""
    return f"{program()} {shlex.join(sys.argv[1:])}"


def pip_install(*requirements: str) -> str:
    """Install distributions, by the names and versions that pins give them."""
    return " ".join((f"{shlex.quote(sys.executable)} -m pip install", *(f"'{each}'" for each in requirements)))


def in_checkout(path: Path) -> bool:
    """Whether a file is of this program's checkout, with its extras and make's targets; a package has none."""
    return path.is_relative_to(SHIPPED) and (SHIPPED / "pyproject.toml").is_file()


def pip_install_here(extra: str = "") -> str:
    """Install tilebench anew as it is here, from its checkout or from a package, with an extra."""
    wanted = f"[{extra}]" if extra else ""
    if in_checkout(SHIPPED):
        return f"{shlex.quote(sys.executable)} -m pip install --editable '{SHIPPED}{wanted}'"
    return pip_install(f"{DISTRIBUTION}{wanted}")


def adds(target: str, extra: str) -> str:
    """How to add an extra: by a target of this checkout's make too, which a package has not."""
    pip = pip_install_here(extra)
    return f"`make {target}` adds it, or: {pip}" if in_checkout(SHIPPED) else pip
