"""Interruption by a signal: raised on arrival, and again at safe points, because Python may drop it."""

import signal
import threading
from types import FrameType
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_asked: Final = threading.Event()


def listen() -> None:
    """Turn the signals into KeyboardInterrupt. Call it in the main thread."""
    _asked.clear()
    for number in SIGNALS:
        signal.signal(number, _ask)


def ignore() -> None:
    """Let the program end: what Python does at its exit is not cut short by one more signal."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def heed() -> None:
    """Raise KeyboardInterrupt if a signal came: Python drops exceptions in finalizers and callbacks."""
    if _asked.is_set():
        raise KeyboardInterrupt


def _ask(number: int, frame: FrameType | None) -> NoReturn:
    _asked.set()
    raise KeyboardInterrupt
