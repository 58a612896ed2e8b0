"""git, as a program: it has the history of a notebook, and the commits of a clone."""

import subprocess
from pathlib import Path

from harness.errors import InfrastructureError, UsageError, last_line


def git(root: Path, *words: str, fault: type[InfrastructureError | UsageError] = InfrastructureError) -> bytes:
    """The output of git. Raises ``fault`` with git's last line, and InfrastructureError where there is no git."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise InfrastructureError("git was not found, and history is in git: install git") from None
    if done.returncode:
        raise fault(f"{root}: git {words[0]}: {last_line(done.stderr, 'failed')}")
    return done.stdout
