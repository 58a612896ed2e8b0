"""What the forkserver imports before it forks, and where that fails the reason, kept for the parent to tell."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

REASON_IN: Final = "TILEBENCH_PRELOADING"  # environment variable: the path of the file that takes the reason

_proven: Final = threading.Event()


def expect(folder: str) -> None:
    """For the parent, before it starts the forkserver."""
    reason = Path(folder) / "preloading.txt"
    reason.unlink(missing_ok=True)
    os.environ[REASON_IN] = str(reason)
    _proven.clear()


def proven() -> None:
    """A child has answered: what the file says from now on is nobody's word."""
    _proven.set()


def failure() -> str | None:
    """Why torch or TileLang could not be imported, if so; for the parent, when a child has ended."""
    if _proven.is_set():
        return None
    with suppress(OSError, KeyError):
        return Path(os.environ[REASON_IN]).read_text(errors="replace")
    return None


def preload() -> None:
    """Import all; multiprocessing would pass over an ImportError, and each child fail by its own."""
    try:
        import harness.judge.child.preload  # noqa: F401
    except Exception as error:
        with suppress(OSError, KeyError):
            Path(os.environ[REASON_IN]).write_text(f"{type(error).__name__}: {error}", errors="backslashreplace")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the parent tells it once, and no child its traceback
