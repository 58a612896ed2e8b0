"""The environment of a record: versions, device, image, and the judge's hash."""

import os
import platform
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final

from harness.catalog.gpus import key_of
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import judge_sha256, source_sha256
from harness.machine.clock_lock import locked_mhz
from harness.machine.hints import installed
from harness.machine.nvml import Device
from harness.records.base import Environment

IMAGE_VARIABLE: Final = "TILEBENCH_IMAGE"
CONTENTS: Final = "contents:"  # marks a hash of the contents, if the image's ID is unknown


def describing(root: Path, gpu: Gpu, device: Device | None) -> Callable[[str], Environment]:
    """The environment of each operator on this machine; each is described once."""
    return cache(partial(describe, root, gpu, device))


def describe(root: Path, gpu: Gpu, device: Device | None, operator: str) -> Environment:
    """The environment of an operator's problems on this machine; imports neither torch nor TileLang."""
    return Environment(
        gpu=gpu.key,
        device=device.name if device else _cpu_name(),
        device_uuid=device.uuid if device else "",
        driver=device.driver if device else "none",
        python=platform.python_version(),
        torch=installed("torch") or "none",
        tilelang=installed("tilelang") or "none",
        tvm_ffi=installed("apache-tvm-ffi") or "none",
        judge_sha256=judge_sha256(root, operator, gpu),
        image=image(),
        forced=device is not None and key_of(device.name) != gpu.key,
        locked_mhz=locked_mhz(device),
    )


def image() -> str | None:
    """The container's image, by ID or else by a hash of its list of contents; None outside a container."""
    named = os.environ.get(IMAGE_VARIABLE)
    if named and named.startswith("/"):
        return f"{CONTENTS}{source_sha256(Path(named))}"
    return named or None


@cache
def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
