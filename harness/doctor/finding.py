"""The finding of a check, and the versions that checks compare."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from harness.evidence import toolchain
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


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part)


def described(path: Path, pattern: str) -> tuple[tuple[int, ...] | None, str]:
    """A tool's version, None if it does not answer in time, and the tool in words."""
    tool = toolchain.tool(path, ANSWER_S, pattern)
    found = version(tool.version) if tool and tool.version != toolchain.UNKNOWN else None
    return found, f"{dotted(found)}, {path}" if found else f"{path}, of unknown version"


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def major(driver: str) -> int:
    return version(driver)[0]
