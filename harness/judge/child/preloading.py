"""A forkserver's imports, and the reason of a failed import for the parent."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

    def last_words(self) -> str:
        """The last line that the forkserver printed during its imports, by which it may have died; empty if none."""
        with suppress(OSError):
            lines = _heard_in(self._reason).read_text(errors="replace").splitlines()
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def proven(self) -> None:
        """A child has answered, so a later reason is not believed."""
        self._proven.set()

    def failure(self) -> str | None:
        """Why torch or TileLang could not be imported; None if it could. The parent asks when a child has ended."""
        with suppress(OSError):
            return None if self._proven.is_set() else self._reason.read_text(errors="replace") or None
        return None


def _heard_in(reason: Path) -> Path:
    return reason.with_suffix(".heard")


def preload() -> None:
    """Import everything. multiprocessing ignores an ImportError, and then each child would fail by itself."""
    try:
        with _unheard():
            import harness.judge.child.preload  # noqa: F401
    except Exception as error:
        with suppress(OSError, KeyError):
            Path(os.environ[REASON_IN]).write_text(f"{type(error).__name__}: {error}", errors="backslashreplace")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the parent prints the reason once; no child prints its traceback


@contextmanager
def _unheard() -> Iterator[None]:
    """Keep what imports print from the terminal: an old TVM warns in dozens of lines."""
    kept = os.dup(2)
    with suppress(OSError, KeyError), _heard_in(Path(os.environ[REASON_IN])).open("wb") as heard:
        os.dup2(heard.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
