"""Interruption by a signal: raised on arrival, and again at safe points, because Python may drop it."""

import os
import signal
import threading
from types import FrameType
from typing import Final, NoReturn

from harness.errors import ExitCode

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_asked: Final = threading.Event()


def leave_at_once() -> None:
    """Let a signal end the program with one line, until ``listen``: an exception in an import would be a traceback."""
    for number in SIGNALS:
        signal.signal(number, _leave)


def listen() -> None:
    """Turn the signals into KeyboardInterrupt. Call it in the main thread."""
    _asked.clear()
    for number in SIGNALS:
        signal.signal(number, _ask)


def heed() -> None:
    """Raise KeyboardInterrupt if a signal came: Python drops exceptions in finalizers and callbacks."""
    if _asked.is_set():
        raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"tilebench: stopped before it began\n")
    os._exit(ExitCode.INFRASTRUCTURE)


def _ask(number: int, frame: FrameType | None) -> NoReturn:
    _asked.set()
    raise KeyboardInterrupt
