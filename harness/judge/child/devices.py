"""The device files of a child: what a compiler needs, and its own GPU's."""

import os
import re
from functools import cache
from pathlib import Path
from typing import Final

_PLAIN: Final = ("null", "zero", "full", "tty", "random", "urandom")
_OF_ONE_GPU: Final = re.compile(r"nvidia(\d+)")
_GPUS: Final = Path("/proc/driver/nvidia/gpus")


@cache
def needed() -> tuple[Path, ...]:
    """The files of a compiler and of CUDA. Of several GPUs' only that of the one in CUDA_VISIBLE_DEVICES, by its UUID.

    Where the driver does not tell which file belongs to which GPU, all are needed.
    """
    own = _minors().get(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    plain = [each for name in _PLAIN if (each := Path("/dev", name)).exists()]
    return (*plain, *(each for each in _of_nvidia() if own is None or _minor(each) in (None, own)))


def _of_nvidia() -> list[Path]:
    return sorted(Path("/dev").glob("nvidia*"))


def _minor(file: Path) -> str | None:
    found = _OF_ONE_GPU.fullmatch(file.name)
    return found[1] if found else None


def _minors() -> dict[str, str]:
    """The minor number of each GPU's device file by its UUID, as the driver tells."""
    told = [dict(re.findall(r"(.+?):\s*(.*)", each.read_text())) for each in _GPUS.glob("*/information")]
    return {each["GPU UUID"]: each["Device Minor"] for each in told if {"GPU UUID", "Device Minor"} <= each.keys()}
