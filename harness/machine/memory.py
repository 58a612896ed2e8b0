"""Memory: what this machine has, or the control group of a container or a batch job gives."""

import contextlib
from pathlib import Path
from typing import Final

import psutil

# Control groups, version 2 and version 1; one without a limit says so, in a word or by a number beyond any machine's.
LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def total_bytes() -> int:
    """All memory that processes here may use together."""
    return _limited(int(psutil.virtual_memory().total))


def free_bytes() -> int:
    """What of it is free."""
    return _limited(int(psutil.virtual_memory().available))


def _limited(size_bytes: int) -> int:
    for limit in LIMITS:
        with contextlib.suppress(OSError, ValueError):
            size_bytes = min(size_bytes, int(limit.read_text()))
    return size_bytes
