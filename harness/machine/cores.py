"""Cores: those that processes here may use, and how many builds these and the memory take at once."""

import contextlib
import os
from pathlib import Path
from typing import Final

from harness.machine import memory

# Control groups, version 2 in one file and version 1 in two: a quota, a word or -1 where there is none, and its period.
QUOTAS: Final = (
    (Path("/sys/fs/cgroup/cpu.max"),),
    (Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")),
)
JOB_BYTES: Final = 2 << 30  # one build may take half of it, and holds torch and TileLang before it begins


def usable() -> int:
    """Cores of the affinity, or whole ones of the control group's quota where that is less; at least 1."""
    count = len(os.sched_getaffinity(0))
    for files in QUOTAS:
        with contextlib.suppress(OSError, ValueError):
            quota, period = (int(word) for file in files for word in file.read_text().split())
            if quota > 0:
                count = min(count, quota // period)
    return max(1, count)


def jobs(spare: int = 0) -> int:
    """Builds at once: one a core but for the spare ones, and no more than the memory takes; at least 1."""
    return max(1, min(usable() - spare, memory.total_bytes() // JOB_BYTES))
