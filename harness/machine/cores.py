"""The cores that processes here may use, and how many builds fit on them at once."""

import contextlib
import os
from pathlib import Path
from typing import Final

from harness.machine import memory

# Control groups, version 2 in one file, version 1 in two: a quota (a word or -1 means none) and its period.
QUOTAS: Final = (
    (Path("/sys/fs/cgroup/cpu.max"),),
    (Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")),
)
LEAST_CORES: Final = 3  # of one run beside others: two processes that measure, and one that builds
JOB_BYTES: Final = 2 << 30  # of one build; torch and TileLang take the other half


def allowed() -> set[int]:
    """The cores of the affinity."""
    return os.sched_getaffinity(0)


def usable() -> int:
    """The cores of the affinity, or whole cores of the control group's quota if fewer; at least 1."""
    count = len(allowed())
    for files in QUOTAS:
        with contextlib.suppress(OSError, ValueError):
            quota, period = (int(word) for file in files for word in file.read_text().split())
            if quota > 0:
                count = min(count, quota // period)
    return max(1, count)


def jobs(spare: int = 0) -> int:
    """How many builds run at once: one per core that is not spare, as far as the memory lasts; at least 1."""
    return max(1, min(usable() - spare, memory.total_bytes() // JOB_BYTES))


def apart_from(core: int) -> set[int]:
    """The cores that share no unit with this one; none where a quota could stop all of them at once."""
    if usable() < len(allowed()):
        return set()
    return {each for each in allowed() if _topology(each) != _topology(core)}


def pin(pid: int, *to: int) -> None:
    """Keep all threads of a process on these cores: new ones inherit them, so the last look finds none elsewhere."""
    with contextlib.suppress(FileNotFoundError):  # it is gone
        while any(_moved(int(task.name), set(to)) for task in Path(f"/proc/{pid}/task").iterdir()):
            continue


def _moved(task: int, to: set[int]) -> bool:
    """Whether a thread had to be pinned; not if it is gone."""
    with contextlib.suppress(ProcessLookupError):
        if os.sched_getaffinity(task) != to:
            os.sched_setaffinity(task, to)
            return True
    return False


def slice_of(lane: int, lanes: int) -> list[int]:
    """The cores of one of several runs on this machine: neighbours, no core shared; all where there are too few."""
    cpus = sorted(allowed(), key=lambda cpu: (_topology(cpu), cpu))
    share = min(len(cpus), usable()) // lanes
    return cpus[lane * share : (lane + 1) * share] if share >= LEAST_CORES else cpus


def _topology(cpu: int) -> tuple[int, ...]:
    """Socket and core, so that the threads of a core lie beside each other."""
    folder = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return tuple(int((folder / name).read_text()) for name in ("physical_package_id", "core_id"))
    except (OSError, ValueError):
        return (0, 0)
