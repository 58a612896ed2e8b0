"""A locked SM clock: set through NVML, and given back on every way out; after a kill by the next command."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pynvml

from harness.errors import InfrastructureError, UsageError
from harness.machine.nvml import Device, session

_held: Final[dict[str, int]] = {}  # by UUID, the MHz that this process has set


def folder() -> Path:
    """Where each locked device has a file named by its UUID, which its process holds open under a lock."""
    return Path(tempfile.gettempdir()) / f"tilebench-clocks-{os.getuid()}"


def locked_mhz(device: Device | None) -> int | None:
    """The clock that this process holds the device at."""
    return _held.get(device.uuid) if device is not None else None


@contextmanager
def locked(device: Device, mhz: int) -> Iterator[None]:
    """Hold the SM clock of a device. Raises UsageError where the device, the user or another process forbids it."""
    path = folder() / device.uuid
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("a") as file:
        try:
            _take(file, path)
        except BlockingIOError:
            raise UsageError(f"another run holds the clock of {device.name}; wait until it ends") from None
        try:
            _lock(device, mhz)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        _held[device.uuid] = mhz
        try:
            yield
        finally:
            del _held[device.uuid]
            _restore(path)


def restore_left() -> Iterator[str]:
    """Give back the clocks that killed processes left locked; a sentence about each."""
    for path in sorted(folder().iterdir()) if folder().is_dir() else ():
        with path.open("a") as file:
            try:
                _take(file, path)
                _restore(path)
                yield f"the clock of {path.name} is free again; a command that was killed had locked it"
            except BlockingIOError:
                continue  # its process is alive
            except InfrastructureError as error:
                yield str(error)


def _take(file: IO[str], path: Path) -> None:
    """Lock the file. Raises BlockingIOError where another process has it, or removed it meanwhile."""
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not path.exists() or not path.samefile(f"/proc/self/fd/{file.fileno()}"):
        raise BlockingIOError


def _lock(device: Device, mhz: int) -> None:
    with session():
        handle = pynvml.nvmlDeviceGetHandleByUUID(device.uuid)
        try:
            allowed = _allowed_mhz(handle)
            if allowed and mhz not in allowed:
                nearest = min(allowed, key=lambda each: abs(each - mhz))
                span = f"{min(allowed)} to {max(allowed)} MHz"
                raise UsageError(f"--lock-clock {mhz}: {device.name} has steps from {span}; the nearest is {nearest}")
            pynvml.nvmlDeviceSetGpuLockedClocks(handle, mhz, mhz)
        except pynvml.NVMLError as error:
            remedy = "run as root, or " if error.value == pynvml.NVML_ERROR_NO_PERMISSION else ""
            raise UsageError(
                f"--lock-clock {mhz}: {device.name} refuses ({error}); {remedy}leave the option out"
            ) from None


def _allowed_mhz(handle: Any) -> list[int]:
    """The steps of the SM clock beside the fastest memory clock; empty where the driver does not tell."""
    try:
        memory_mhz = max(pynvml.nvmlDeviceGetSupportedMemoryClocks(handle))
        return list(pynvml.nvmlDeviceGetSupportedGraphicsClocks(handle, memory_mhz))
    except pynvml.NVMLError:
        return []


def _restore(path: Path) -> None:
    """Free the clock of a device and remove its file. Raises InfrastructureError, and keeps the file."""
    try:
        with session() as alive:
            if alive:
                pynvml.nvmlDeviceResetGpuLockedClocks(pynvml.nvmlDeviceGetHandleByUUID(path.name))
    except InfrastructureError as error:
        raise InfrastructureError(
            f"the clock of {path.name} is still locked: {error.__cause__}; free it: nvidia-smi -i {path.name} -rgc"
        ) from error
    path.unlink(missing_ok=True)
