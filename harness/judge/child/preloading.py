"""A forkserver's imports, and the reason of a failed import for the parent."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

REASON_IN: Final = "TILEBENCH_PRELOADING"  # environment variable: the file that takes the reason


class Preloading:
    """What the parent knows of one forkserver's imports."""

    def __init__(self) -> None:
        self._proven = threading.Event()
        self._reason = Path(os.devnull)

    def expect(self, reason: Path) -> None:
        """Prepare for a failure; the parent calls this before it starts the forkserver."""
        reason.unlink(missing_ok=True)
        self._reason = reason
        os.environ[REASON_IN] = str(reason)
        self._proven.clear()

    def proven(self) -> None:
        """A child has answered, so a later reason is not believed."""
        self._proven.set()

    def failure(self) -> str | None:
        """Why torch or TileLang could not be imported; None if it could. The parent asks when a child has ended."""
        with suppress(OSError):
            return None if self._proven.is_set() else self._reason.read_text(errors="replace") or None
        return None


def preload() -> None:
    """Import everything. multiprocessing ignores an ImportError, and then each child would fail by itself."""
    try:
        import harness.judge.child.preload  # noqa: F401
    except Exception as error:
        with suppress(OSError, KeyError):
            Path(os.environ[REASON_IN]).write_text(f"{type(error).__name__}: {error}", errors="backslashreplace")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the parent prints the reason once; no child prints its traceback
