"""The finding of a check, and the versions that checks compare."""

import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from harness.machine.nvml import Device

ANSWER_S: Final = 0.8  # a slower tool is present, of unknown version


class HealthFinding(msgspec.Struct, frozen=True):
    """The result of one check. If it is not ``ok``, ``advice`` says what to do.

    ``needed`` if this machine's main job does not run without it.
    """

    name: str
    ok: bool
    needed: bool
    found: str
    advice: str = ""


Check = Callable[[list[Device]], Iterable[HealthFinding]]  # given the GPUs that the driver shows


def version_of(tool: Path, pattern: str) -> tuple[int, ...] | None:
    """The version by ``--version``; None if the tool does not answer in time."""
    try:
        answer = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(pattern, answer.stdout)
    return version(match[1]) if match else None


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part)


def described(tool: Path, pattern: str) -> tuple[tuple[int, ...] | None, str]:
    """A tool's version, and the tool in words."""
    found = version_of(tool, pattern)
    return found, f"{dotted(found)}, {tool}" if found else f"{tool}, of unknown version"


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def major(driver: str) -> int:
    return version(driver)[0]
