"""The memory of this machine, or of the control group of a container or a batch job."""

import contextlib
from pathlib import Path
from typing import Final

import psutil

# Control groups, version 2 and version 1. No limit is a word, or a number above any machine's memory.
LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def total_bytes() -> int:
    """All memory that processes here may use."""
    return _limited(int(psutil.virtual_memory().total))


def free_bytes() -> int:
    """The free part of that memory."""
    return _limited(int(psutil.virtual_memory().available))


def _limited(size_bytes: int) -> int:
    for limit in LIMITS:
        with contextlib.suppress(OSError, ValueError):
            size_bytes = min(size_bytes, int(limit.read_text()))
    return size_bytes
