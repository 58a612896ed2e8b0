"""The memory of this machine, or of the control group of a container or a batch job."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

# Control groups, version 2 and version 1: the limit and what is used. No limit is a word, or a number above any
# machine's memory.
GROUPS: Final = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


def total_bytes() -> int:
    """All memory that processes here may use."""
    return min([int(psutil.virtual_memory().total), *(limit for limit, _ in _groups())])


def free_bytes() -> int:
    """The free part of that memory."""
    return max(0, min([int(psutil.virtual_memory().available), *(limit - used for limit, used in _groups())]))


def _groups() -> Iterator[tuple[int, int]]:
    """Limit and use of each control group that has a limit."""
    for limit, used in GROUPS:
        with contextlib.suppress(OSError, ValueError):
            yield int(limit.read_text()), int(used.read_text()) - _cached_bytes(used.with_name("memory.stat"))


def _cached_bytes(statistics: Path) -> int:
    """The files in memory, which the kernel drops where it is short."""
    counts = dict(line.split() for line in statistics.read_text().splitlines())
    return sum(int(counts.get(name, 0)) for name in ("active_file", "inactive_file"))
