"""ncu, the command line of Nsight Compute: one launch under it, its report as CSV, and its errors with remedies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import InfrastructureError
from harness.evidence import toolchain
from harness.evidence.toolchain import NCU_PERMISSION, OPEN_COUNTERS
from harness.extras.profile.children import Children

IMPORT_DEADLINE_S: Final = 60.0
VERSION_DEADLINE_S: Final = 10.0
MOST_KERNELS: Final = 16  # in one launch; no iteration has more

# A part of ncu's message -> its meaning and a remedy. The first match counts.
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


class NcuMissing(InfrastructureError):
    """There is no ncu."""


class CountersRefused(InfrastructureError):
    """The driver restricts the counters to administrators."""


@dataclass(frozen=True, slots=True)
class Ncu:
    path: Path
    version: str

    @property
    def name(self) -> str:
        return f"ncu {self.version}"

    def command(self, report: Path, program: Sequence[str]) -> list[str]:
        """One program under ncu, with its ranges written to ``report``.

        There is no filter by kernel name: a filter would hide other kernels of the range, which must be refused.
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
        """The report as CSV, page ``raw``. Raises InfrastructureError."""
        command = [str(self.path), "--import", str(report), "--csv", "--page", "raw"]
        done = children.run(command, environment, folder, IMPORT_DEADLINE_S)
        if done.code != 0 or done.timed_out:
            why = complaint(done.stdout + done.stderr)
            raise InfrastructureError(f"{self.name} cannot read its own report {report.name}: {why}")
        return done.stdout


def require() -> Ncu:
    """The ncu of this machine. Raises NcuMissing."""
    path = toolchain.ncu_path()
    if path is None:
        raise NcuMissing(
            "ncu was not found on PATH, in CUDA_HOME or under /opt/nvidia: install Nsight Compute; "
            "--no-counters gives names and durations"
        )
    tool = toolchain.tool(path, VERSION_DEADLINE_S, r"Version ([0-9.]+[0-9])")
    return Ncu(path, tool.version if tool else "of unknown version")


def trouble(log: str) -> InfrastructureError | None:
    """The known error in ncu's log, with its remedy."""
    for sign, remedy in TROUBLES:
        if sign in log:
            return (CountersRefused if sign == NCU_PERMISSION else InfrastructureError)(remedy)
    return None


def complaint(log: str) -> str:
    """The first line that ncu marks as an error."""
    errors = (line.strip()[:300] for line in log.splitlines() if line.startswith("==ERROR=="))
    return next(errors, "ncu gave no reason")
