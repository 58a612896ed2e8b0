"""A child of a search: all that it writes goes to one folder, and what it only traces is warned of nowhere."""

import os
import tempfile
from pathlib import Path
from typing import Final

OUTPUT: Final = "output.txt"


def keep_to(folder: Path) -> Path:
    """Work in a folder, and send there what is compiled and printed; where it is printed to."""
    os.chdir(folder)
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    output = folder / OUTPUT
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target in (1, 2):
        os.dup2(descriptor, target)
    return output


def quieten() -> None:
    """Keep TileLang from warning of every kernel that it traces; those that race have their warnings in their build."""
    import tilelang

    tilelang.set_log_level("ERROR")
