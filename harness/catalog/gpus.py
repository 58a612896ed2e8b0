"""GPU keys: the rows of gpus.toml, and the key of this machine."""

import os
import re
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import InfrastructureError, UsageError, meant
from harness.judge.facts.gpu import CPU, Gpu
from harness.machine.nvml import Device, devices

AUTO: Final = "auto"
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
# CUDA major version -> the first driver branch that runs it (CUDA compatibility guide, minor version compatibility).
LEAST_DRIVER: Final = {11: 450, 12: 525, 13: 580}
_FILE: Final = Path(__file__).with_name("gpus.toml")


@cache
def table() -> dict[str, Gpu]:
    try:
        rows = msgspec.toml.decode(_FILE.read_bytes(), type=dict[str, Gpu])
    except (OSError, msgspec.MsgspecError) as error:
        raise InfrastructureError(f"{_FILE}: the GPU table cannot be read: {error}") from error
    return {key: msgspec.structs.replace(row, key=key) for key, row in rows.items()}


def find(key: str, *, auto: bool = True) -> Gpu:
    """The row of a key. Raises UsageError with the known keys, with ``auto`` if the caller takes it."""
    try:
        return table()[key]
    except KeyError:
        known = [AUTO, *table()] if auto and key != AUTO else table()
        raise UsageError(f"unknown GPU key '{key}'; known: {', '.join(known)}{meant(key, known)}") from None


def key_of(device_name: str) -> str | None:
    """The key of the row that matches the driver's name of a GPU; None if no row matches."""
    return next((row.key for row in table().values() if row.name and re.search(row.name, device_name)), None)


def visible(present: list[Device], said: str) -> list[Device]:
    """The devices that CUDA_VISIBLE_DEVICES names, in its order.

    It lists indices or prefixes of UUIDs; the first without a device ends the list (CUDA C++ Programming Guide).
    """
    chosen: list[Device] = []
    for word in said.split(","):
        name = word.strip()
        if name.isascii() and name.isdigit():
            named = [device for device in present if device.index == int(name)]
        else:
            named = [device for device in present if name.startswith("GPU-") and device.uuid.startswith(name)]
        if len(named) != 1 or named[0] in chosen:
            break
        chosen += named
    return chosen


def narrowed(present: list[Device] | None = None) -> list[Device] | None:
    """The devices that CUDA_VISIBLE_DEVICES names; None if it is not set, or if NVML shows no device.

    Raises UsageError if it names no device here. Empty and -1 are valid and mean none.
    """
    found, said = devices() if present is None else present, os.environ.get(VISIBLE)
    if said is None or not found:
        return None
    chosen = visible(found, said)
    if not chosen and said.partition(",")[0].strip() not in ("", "-1"):
        raise UsageError(
            f"{VISIBLE}={said} names no GPU of this machine; set it to the index or UUID of a whole one, "
            "as nvidia-smi -L lists them, or to -1 for none"
        )
    return chosen


def usable() -> list[Device]:
    found = devices()
    chosen = narrowed(found)
    return found if chosen is None else chosen


def detect() -> str:
    """The key of the first usable GPU; ``cpu`` without one.

    Raises UsageError if no row matches it or CUDA_VISIBLE_DEVICES names none, InfrastructureError if the driver fails.
    """
    present = usable()
    if not present:
        return CPU
    key = key_of(present[0].name)
    if key is None:
        raise UsageError(f"'{present[0].name}' matches no row of {_FILE.name}; add one, or name a key and --force it")
    return key


def resolve(key: str, *, force: bool = False) -> tuple[Gpu, Device | None]:
    """The row of a requested key, and the device that will run it (None for ``cpu``, which needs no driver).

    Raises UsageError if the machine's GPU has another key (unless forced), and InfrastructureError if there is no GPU
    or the driver fails.
    """
    gpu = find(detect() if key == AUTO else key)
    if gpu.is_cpu:
        return gpu, None
    present = usable()
    if not present:
        raise InfrastructureError(
            f"GPU key '{key}' was asked for, but this machine has no NVIDIA GPU; the key 'cpu' needs none"
        )
    match = next((device for device in present if key_of(device.name) == gpu.key), None)
    if match is None and not force:
        asked = f"GPU key '{key}' was asked for, but this machine's GPU is '{present[0].name}'"
        own = key_of(present[0].name)
        if own is None:
            raise UsageError(
                f"{asked}, which matches no row of {_FILE.name}; add one, or --force to keep its records apart"
            )
        raise UsageError(f"{asked} (key {own}); use that key, or --force to keep its records apart")
    return gpu, match or present[0]
