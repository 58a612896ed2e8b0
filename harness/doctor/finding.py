"""What a check of the doctor says, and the versions that it compares."""

import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from harness.machine.nvml import Device

ANSWER_S: Final = 0.8  # a tool that takes longer to tell its version is there all the same


class HealthFinding(msgspec.Struct, frozen=True):
    """One thing that was looked at: what was found and, where that is not ok, what to do about it.

    ``needed`` where the main job on this machine does not run without it.
    """

    name: str
    ok: bool
    needed: bool
    found: str
    advice: str = ""


Check = Callable[[list[Device]], Iterable[HealthFinding]]
"""Looks at one thing, given the GPUs that the driver shows."""


def version_of(tool: Path, pattern: str) -> tuple[int, ...] | None:
    """What a tool's ``--version`` says; None where it does not answer in time."""
    try:
        answer = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(pattern, answer.stdout)
    return version(match[1]) if match else None


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part)


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def major(driver: str) -> int:
    return version(driver)[0]
