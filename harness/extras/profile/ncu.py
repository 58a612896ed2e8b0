"""ncu, Nsight Compute's command line: where it is, one launch under it, its report as CSV, and what its errors mean."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from harness.errors import InfrastructureError
from harness.evidence import toolchain
from harness.evidence.toolchain import NCU_PERMISSION, OPEN_COUNTERS
from harness.extras.profile.children import Children

IMPORT_DEADLINE_S: Final = 60.0
MOST_KERNELS: Final = 16  # of one launch: a range that holds more is none of an iteration

# What ncu says -> what it means, and what to do. The first that matches is told.
TROUBLES: Final = (
    (NCU_PERMISSION, f"the driver refuses its counters ({NCU_PERMISSION}): {OPEN_COUNTERS}"),
    (
        "driver resource was unavailable",
        "another profiler holds the counters: end it, or pause the monitoring (dcgmi profile --pause)",
    ),
    ("InterprocessLockFailed", "another ncu holds its lock: wait until it ends"),
    (
        "driver is not compatible",
        "this ncu does not fit the driver: install the Nsight Compute of the driver's CUDA version",
    ),
    ("No space left", "the disk is full: free some space"),
)


class Missing(InfrastructureError):
    """There is no ncu."""


class CountersRefused(InfrastructureError):
    """The driver keeps the counters to administrators."""


class NcuError(InfrastructureError):
    """ncu ran, and did not do what it should."""


@dataclass(frozen=True, slots=True)
class Ncu:
    path: Path
    version: str

    @property
    def name(self) -> str:
        return f"ncu {self.version}"

    def command(self, report: Path, program: Sequence[str]) -> list[str]:
        """One program under ncu, whose ranges go into ``report``.

        No filter by kernel name: the range holds one launch, and what else ran in it is to be seen and refused.
        """
        return [
            str(self.path),
            *("--target-processes", "all"),
            *("--set", "full"),
            *("--clock-control", "none"),
            *("--profile-from-start", "off"),
            *("--launch-count", str(MOST_KERNELS)),
            *("--export", str(report)),
            "--force-overwrite",
            *program,
        ]

    def table(self, report: Path, children: Children, environment: dict[str, str], folder: Path) -> str:
        """The report as CSV, page ``raw``; raises NcuError."""
        command = [str(self.path), "--import", str(report), "--csv", "--page", "raw"]
        done = children.run(command, environment, folder, IMPORT_DEADLINE_S)
        if done.code != 0 or done.timed_out:
            said = complaint(done.stdout + done.stderr) or "it says nothing of why"
            raise NcuError(f"{self.name} cannot read its own report {report.name}: {said}")
        return done.stdout


def require() -> Ncu:
    """The ncu of this machine; raises Missing."""
    path = toolchain.ncu_path()
    if path is None:
        raise Missing(
            "ncu was not found on PATH, in CUDA_HOME or under /opt/nvidia: install Nsight Compute; "
            "--no-counters gives names and durations"
        )
    return Ncu(path, _version(path))


def trouble(log: str) -> InfrastructureError | None:
    """What ncu complained of, with its remedy; None where it said nothing that is known to end a profile."""
    for sign, remedy in TROUBLES:
        if sign in log:
            return (CountersRefused if sign == NCU_PERMISSION else NcuError)(remedy)
    return None


def complaint(log: str) -> str | None:
    """The first line that ncu marks as an error."""
    return next((line.strip()[:300] for line in log.splitlines() if line.startswith("==ERROR==")), None)


@cache
def _version(path: Path) -> str:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "of unknown version"
    match = re.search(r"Version ([0-9.]+[0-9])", said)
    return match[1] if match else "of unknown version"
