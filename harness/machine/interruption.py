"""Stopping: a signal to end is raised where it arrives, and once more where a run looks, since it can be lost there."""

import signal
import threading
from types import FrameType
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_asked: Final = threading.Event()


def listen() -> None:
    """Turn the signals into KeyboardInterrupt; of the main thread."""
    _asked.clear()
    for number in SIGNALS:
        signal.signal(number, _ask)


def heed() -> None:
    """Raise KeyboardInterrupt where one was asked for: Python drops those raised within a finalizer or a callback."""
    if _asked.is_set():
        raise KeyboardInterrupt


def _ask(number: int, frame: FrameType | None) -> NoReturn:
    _asked.set()
    raise KeyboardInterrupt
