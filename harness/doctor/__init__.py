"""The doctor: what this machine has, what it lacks, and what to do about it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from harness.catalog import gpus
from harness.doctor import gpu, isolation, packages, resources, tools
from harness.doctor.finding import Check, HealthFinding
from harness.machine.hints import pip_install_here
from harness.machine.nvml import Device, devices
from harness.machine.table import table as as_table

__all__ = ["CHECKS", "Check", "HealthFinding", "examine", "table"]

# In the table's order; the name stands for a check that fails.
CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("Python", packages.python),
    ("pinned packages", packages.pinned),
    ("locked packages", packages.locked),
    ("opponents", packages.opponents),
    ("image", isolation.image),
    ("Docker", isolation.docker),
    ("confinement", isolation.linux_confinement),
    ("GPU", gpu.gpu),
    ("driver", gpu.driver),
    ("GPU processes", gpu.processes),
    ("nvcc", tools.nvcc),
    ("cuobjdump", tools.cuobjdump),
    ("C++ compiler", tools.compiler),
    ("ncu", tools.ncu),
    ("counters", tools.counters),
    ("CPU cores", resources.cores),
    ("memory", resources.memory),
    ("disk", resources.disk),
)


def examine(wanted: str = gpus.AUTO) -> list[HealthFinding]:
    """Run all checks, in under a second; a check that fails is a finding too. ``wanted`` is a GPU key."""
    checks = dict(CHECKS)
    try:
        present = devices()
    except Exception as error:  # NVML can fail in many ways, and the CPU still works
        present = []
        trouble = HealthFinding("GPU", False, False, f"NVML failed: {error}", "run nvidia-smi; reboot if it fails too")
        checks["GPU"] = lambda _: [trouble]
    with ThreadPoolExecutor(len(checks)) as pool:
        examined = pool.map(lambda name: _careful(name, checks[name], present), checks)
        return [*gpu.lacking(present, wanted), *(finding for findings in examined for finding in findings)]


def table(findings: list[HealthFinding]) -> str:
    columns: dict[str, Callable[[HealthFinding], str]] = {
        "": lambda each: "ok" if each.ok else "missing" if each.needed else "note",
        "what": lambda each: each.name,
        "found": lambda each: each.found,
        "what to do": lambda each: each.advice,
    }
    return as_table(findings, columns)


def _careful(name: str, check: Check, present: list[Device]) -> list[HealthFinding]:
    try:
        return [msgspec.structs.replace(each, advice="") if each.ok else each for each in check(present)]
    except ModuleNotFoundError as error:
        return [HealthFinding(name, False, False, f"could not be examined: {error}", pip_install_here())]
    except Exception as error:  # one check must not stop the others
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return [HealthFinding(name, False, False, f"could not be examined: {reason}", "look at it by hand")]
