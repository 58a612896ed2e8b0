"""Addresses and hashes that are the same in each start of a program, where the system allows it.

TileLang orders the shared buffers of a kernel by the addresses of its own objects. So without this the same source
becomes another kernel from one build to the next.
"""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

SEED: Final = "PYTHONHASHSEED"
NO_RANDOM_ADDRESSES: Final = 0x0040000  # ADDR_NO_RANDOMIZE of personality(2)
STACK_BYTES: Final = 256 << 20
_QUERY: Final = 0xFFFFFFFF  # changes nothing

T = TypeVar("T")


def hold_addresses() -> int | None:
    """Hold for what this thread starts; returns the persona before, or None where refused or held already."""
    persona = ctypes.CDLL(None).personality
    before = int(persona(_QUERY))
    if before & NO_RANDOM_ADDRESSES or persona(before | NO_RANDOM_ADDRESSES) == -1:
        return None
    return before


@contextmanager
def steady() -> Iterator[None]:
    """What this thread starts meanwhile has steady addresses, and steady hashes of Python's strings."""
    before, seed = hold_addresses(), os.environ.get(SEED)
    os.environ[SEED] = "0"
    try:
        yield
    finally:
        if before is not None:
            ctypes.CDLL(None).personality(before)
        os.environ.pop(SEED)
        if seed is not None:
            os.environ[SEED] = seed


def in_memory_of_its_own(work: Callable[[], T], heard: Collection[signal.Signals] = ()) -> T:
    """The result of ``work`` on a thread: malloc gives one addresses that do not depend on what came before.

    ``work`` may raise nothing. It alone hears the signals ``heard``, such as one that asks where it is.
    """
    found: list[T] = []

    def heeding() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        found.append(work())

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    before = threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=heeding)
    thread.start()
    threading.stack_size(before)
    thread.join()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return found[0]
