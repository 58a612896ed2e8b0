"""The GPU, its driver, and other processes on it."""

import re
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from harness.catalog import gpus
from harness.doctor.finding import HealthFinding, dotted, major, version
from harness.judge.facts.gpu import CPU
from harness.machine.nvml import Device, compute_processes

PCI_DEVICES: Final = Path("/sys/bus/pci/devices")


def lacking(present: list[Device], wanted: str) -> list[HealthFinding]:
    """The finding that no GPU here has the wanted key."""
    if wanted in (gpus.AUTO, CPU, *(gpus.key_of(each.name) for each in present)):
        return []
    return [HealthFinding(wanted, False, True, "no such GPU here", "use a machine with one, or another key")]


def gpu(present: list[Device]) -> Iterable[HealthFinding]:
    if not present and _on_the_bus():
        advice = "install the driver, or start the container with --gpus all; until then the key 'auto' means the CPU"
        yield HealthFinding("GPU", False, False, "an NVIDIA GPU on the bus, but no driver that answers", advice)
    elif not present:
        advice = "nothing, unless this machine should have one: the key 'auto' means the CPU here"
        yield HealthFinding("GPU", False, False, "no NVIDIA GPU", advice)
    for index, device in enumerate(present):
        key = gpus.key_of(device.name)
        known = f"{device.name}, key {key}" if key else f"{device.name}, which matches no GPU key"
        # the key 'auto' takes the first
        yield HealthFinding("GPU", key is not None, index == 0, known, "add a row for it to harness/catalog/gpus.toml")


def _on_the_bus() -> bool:
    for folder in PCI_DEVICES.glob("*"):
        try:
            vendor, kind = ((folder / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == "0x10de" and kind.startswith("0x03"):  # NVIDIA, display controller
            return True
    return False


def driver(present: list[Device]) -> Iterable[HealthFinding]:
    if not present:
        return
    installed, cuda = present[0].driver, _torch_cuda()
    if cuda is None:
        advice = "install torch's CUDA build; the wheel on PyPI is one"
        yield HealthFinding("driver", False, True, f"{installed}, but torch is built without CUDA", advice)
        return
    least = gpus.LEAST_DRIVER.get(cuda[0])
    found = f"{installed}, torch built for CUDA {dotted(cuda)}"
    if least is None:
        yield HealthFinding("driver", True, True, f"{found}; the least driver for it is not known here")
        return
    advice = f"CUDA {cuda[0]} needs driver {least} or newer: update it, or install a torch for an older CUDA"
    yield HealthFinding("driver", major(installed) >= least, True, found, advice)


def _torch_cuda() -> tuple[int, ...] | None:
    """The CUDA version of torch's build, from its version file, because importing torch takes seconds."""
    spec = PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    match = re.search(r"^cuda\b[^=\n]*=\s*['\"]([0-9.]+)['\"]", text, re.MULTILINE)
    return version(match[1]) if match else None


def processes(present: list[Device]) -> Iterable[HealthFinding]:
    for device in present:
        pids = compute_processes(device)
        found = f"process {', '.join(map(str, pids))} on GPU {device.index}" if pids else f"none on GPU {device.index}"
        advice = "wait until it ends, or end it: the harness refuses to measure beside another process"
        yield HealthFinding("GPU processes", not pids, device == present[0], found, advice)
