"""NVML: the GPUs, the processes on them, and their clocks, power and temperature during a measurement."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from statistics import median
from typing import Any, Final, Self

import msgspec
import pynvml

from harness.errors import InfrastructureError

SAMPLE_INTERVAL_S: Final = 0.05
RELEASE_S: Final = 10.0
MOST_MOMENTS: Final = 120

# Reasons for a lower clock, except idle and application clocks.
_THROTTLE_REASONS: Final = {
    0x0000000000000004: "power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000010: "sync boost",
    0x0000000000000020: "software thermal",
    0x0000000000000040: "hardware thermal",
    0x0000000000000080: "hardware power brake",
}


# A driver cannot tell everything, for example of a MIG slice. That says nothing about the device's health.
_UNSAID: Final = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
)
_LOST: Final = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
# These mean that the machine has no GPU; any other error is a fault.
_NO_DRIVER: Final = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as the driver sees it; ``sliced`` by MIG."""

    index: int
    name: str
    uuid: str
    driver: str
    power_limit_w: float | None
    sliced: bool = False


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """One sample of the chip; ``seconds`` count from the first sample."""

    seconds: float
    sm_clock_mhz: int
    power_w: float


class Telemetry(msgspec.Struct, frozen=True):
    """The chip during one measurement, sampled from outside; ``trace`` holds evenly chosen samples."""

    samples: int
    sm_clock_mhz: float
    sm_clock_min_mhz: float
    sm_clock_max_mhz: float
    power_w: float
    temperature_c: float
    throttle: tuple[str, ...]
    trace: tuple[Moment, ...] | None = None  # older records have none


@contextmanager
def session() -> Iterator[bool]:
    """Whether there is a driver. Raises InfrastructureError if the driver fails, at once or inside."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value not in _NO_DRIVER:
            raise InfrastructureError(_failing(error)) from error
        yield False
        return
    try:
        yield True
    except pynvml.NVMLError as error:
        raise InfrastructureError(_failing(error)) from error
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def devices() -> list[Device]:
    """The GPUs of this machine; empty without a driver. Raises InfrastructureError if the driver or a GPU fails."""
    with session() as alive:
        if not alive:
            return []
        driver = pynvml.nvmlSystemGetDriverVersion()
        return [_device(index, driver) for index in range(pynvml.nvmlDeviceGetCount())]


def compute_processes(device: Device) -> list[int]:
    """PIDs with a compute context on the device, as far as the driver shows them. Raises InfrastructureError."""
    with session() as alive:
        if not alive:
            return []
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(device.index)
            return [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
        except pynvml.NVMLError as error:
            if error.value not in _LOST:  # many containers do not show processes
                return []
            raise InfrastructureError(_silent(device, error)) from error


def used_bytes(device: Device) -> int:
    """Device memory in use, by any process; 0 if the driver does not tell."""
    return _memory(device, "used")


def total_bytes(device: Device) -> int:
    """Memory of the device; 0 if the driver does not tell."""
    return _memory(device, "total")


def _memory(device: Device, which: str) -> int:
    with session() as alive:
        if not alive:
            return 0
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(device.index)
            return int(getattr(pynvml.nvmlDeviceGetMemoryInfo(handle), which))
        except pynvml.NVMLError:
            return 0


def strangers(device: Device | None, ours: set[int]) -> list[int]:
    """PIDs on the device that are not ours; none if the driver hides ours too, as in some containers.

    Raises InfrastructureError if the device does not answer.
    """
    seen = set(compute_processes(device)) if device is not None else set()
    return sorted(seen - ours) if seen & ours else []


def lost(device: Device | None) -> str | None:
    """What is wrong with a device that no longer answers, and what to do; None if it answers."""
    if device is None:
        return None
    try:
        pynvml.nvmlInit()
        try:
            pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByUUID(device.uuid))
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        if error.value in _UNSAID:
            return None
        return _silent(device, error)
    return None


def throttle_reasons(seen: Iterable[int]) -> tuple[str, ...]:
    """The names of all reasons in NVML's bit masks."""
    bits = reduce(or_, seen, 0)
    return tuple(name for bit, name in _THROTTLE_REASONS.items() if bits & bit)


@dataclass(frozen=True, slots=True)
class ChipSample:
    """One reading; ``at`` is of ``time.monotonic``, ``reasons`` is NVML's bit mask."""

    at: float
    sm_clock_mhz: int
    power_w: float
    temperature_c: int
    reasons: int

    @classmethod
    def now(cls, handle: Any) -> Self:
        return cls(
            time.monotonic(),
            pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        )


@dataclass
class Sampler:
    """Samples a device on a thread while its context lasts; without a device it has no samples."""

    device: Device | None
    _samples: list[ChipSample] = field(default_factory=list)
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self.device is not None:
            self._thread = threading.Thread(target=self._run, args=(self.device,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, device: Device) -> None:
        with suppress(InfrastructureError), session() as alive:  # the samples stay if the device stops answering
            if alive:
                self._read(pynvml.nvmlDeviceGetHandleByIndex(device.index))

    def _read(self, handle: Any) -> None:
        """Take samples until ``_done``."""
        raise NotImplementedError


class Monitor(Sampler):
    """``with Monitor(device) as monitor: …; monitor.telemetry()``."""

    def telemetry(self) -> Telemetry | None:
        """A summary of the samples so far; None without samples."""
        samples = list(self._samples)
        if not samples:
            return None
        clocks = [sample.sm_clock_mhz for sample in samples]
        return Telemetry(
            samples=len(samples),
            sm_clock_mhz=median(clocks),
            sm_clock_min_mhz=min(clocks),
            sm_clock_max_mhz=max(clocks),
            power_w=round(median(sample.power_w for sample in samples), 1),
            temperature_c=max(sample.temperature_c for sample in samples),
            throttle=throttle_reasons(sample.reasons for sample in samples),
            trace=tuple(
                Moment(round(sample.at - samples[0].at, 3), sample.sm_clock_mhz, round(sample.power_w, 1))
                for sample in samples[:: -(-len(samples) // MOST_MOMENTS)]
            ),
        )

    def _read(self, handle: Any) -> None:
        while not self._done.is_set():
            self._samples.append(ChipSample.now(handle))
            time.sleep(SAMPLE_INTERVAL_S)


def _device(index: int, driver: str) -> Device:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    limit_w: float | None = None
    sliced = False
    with suppress(pynvml.NVMLError):
        limit_w = pynvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000
    with suppress(pynvml.NVMLError):  # a GPU without MIG says so by an error
        sliced = pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    return Device(
        index=index,
        name=pynvml.nvmlDeviceGetName(handle),
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        driver=driver,
        power_limit_w=limit_w,
        sliced=sliced,
    )


def _failing(error: pynvml.NVMLError) -> str:
    return f"the NVIDIA driver fails: {error}; see nvidia-smi and dmesg, reset the GPU or reboot, or take the key 'cpu'"


def _silent(device: Device, error: pynvml.NVMLError) -> str:
    return f"{device.name} does not answer any more ({error}); see dmesg for its Xid, reset it or take another"


def released(device: Device | None) -> None:
    """Wait until the device is free of ended processes, because the judge refuses to run beside any process.

    A pipe closes when its process ends, and the driver releases the process a moment later. Raises
    InfrastructureError if the device does not answer.
    """
    until = time.monotonic() + RELEASE_S
    while device is not None and compute_processes(device) and time.monotonic() < until:
        time.sleep(0.1)
