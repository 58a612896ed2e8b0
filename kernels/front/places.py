"""Where a call runs: the device, its architecture, and the GPU key that names its winners."""

from dataclasses import dataclass
from functools import cache
from typing import Final

import torch

from harness.catalog import gpus
from harness.judge.facts.gpu import CPU

# Compute capability -> what TileLang compiles for. Others have no family that was built for them.
ARCHITECTURES: Final = {(8, 0): "sm_80", (8, 6): "sm_86", (8, 9): "sm_89", (9, 0): "sm_90a", (10, 0): "sm_100a"}


@dataclass(frozen=True, slots=True)
class Place:
    """``key`` is None for a GPU that the GPU table does not describe, ``arch`` where no family is built for it."""

    device: torch.device
    key: str | None
    arch: str | None
    sms: int


@cache
def place(device: torch.device) -> Place:
    if device.type == "cpu":
        return Place(device, CPU, "c", 1)
    found = torch.cuda.get_device_properties(device)
    key, arch = recognise(found.name, (found.major, found.minor), found.multi_processor_count)
    return Place(device, key, arch, found.multi_processor_count)


def recognise(name: str, capability: tuple[int, int], sms: int) -> tuple[str | None, str | None]:
    """(GPU key, architecture). A slice of a GPU, or its smaller sibling, has the name and fewer SMs: no key then."""
    key = gpus.key_of(name)
    whole = key is not None and gpus.find(key).sms == sms
    return key if whole else None, ARCHITECTURES.get(capability)
