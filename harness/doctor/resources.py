"""Cores, memory and disk."""

import shutil
from collections.abc import Iterable
from typing import Final

from harness.catalog.tree import Tree
from harness.doctor.finding import HealthFinding
from harness.machine.cores import usable
from harness.machine.memory import free_bytes
from harness.machine.nvml import Device

LEAST_DISK_GIB: Final = 2.0  # the compile cache and the records of a few hundred iterations
LEAST_MEMORY_GIB: Final = 4.0  # referee and contestant each hold torch, and builds run beside them
LEAST_CORES: Final = 2


def cores(_: list[Device]) -> Iterable[HealthFinding]:
    count, advice = usable(), "with one core, builds wait for measurements"
    yield HealthFinding("CPU cores", count >= LEAST_CORES, False, str(count), advice)


def memory(_: list[Device]) -> Iterable[HealthFinding]:
    gib = free_bytes() / 2**30
    advice = f"below {LEAST_MEMORY_GIB:.0f} GiB processes may be killed: end others, or raise the container's limit"
    yield HealthFinding("memory", gib >= LEAST_MEMORY_GIB, False, f"{gib:.1f} GiB free", advice)


def disk(_: list[Device]) -> Iterable[HealthFinding]:
    root = Tree.here().root
    gib = shutil.disk_usage(root).free / 2**30
    advice = f"below {LEAST_DISK_GIB:.0f} GiB the compile cache may not fit: free some"
    yield HealthFinding("disk", gib >= LEAST_DISK_GIB, False, f"{gib:.1f} GiB free for {root}", advice)
