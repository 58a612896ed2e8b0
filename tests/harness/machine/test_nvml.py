"""The monitor: what the chip did while a measurement ran, from a driver that is made to say so."""

import pynvml
import pytest

from harness.errors import InfrastructureError
from harness.machine import nvml
from harness.machine.nvml import Device, Monitor, compute_processes, devices, strangers, used_bytes
from tests.harness.checkout import until

H200 = Device(0, "NVIDIA H200", "GPU-1", "580", 700.0)
POWER_CAP, THERMAL, IDLE = 0x4, 0x40, 0x1


class Driver:
    """A chip with a clock that falls under a power cap, and which stops answering after ``answers`` samples."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: int) -> None:
        self.clocks_mhz = iter([1980, 1980, 1400, 1300, *[1300] * 1000][:answers])
        for name in ("nvmlInit", "nvmlShutdown"):
            monkeypatch.setattr(pynvml, name, lambda: None)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetClockInfo", self.clock)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", lambda _: 700_000)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperature", lambda *_: 61)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda _: POWER_CAP | THERMAL | IDLE)

    def clock(self, *_: object) -> int:
        clock_mhz = next(self.clocks_mhz, None)
        if clock_mhz is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return clock_mhz


def test_a_chip_that_throttles_is_recorded_with_its_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch, answers=1000)
    with Monitor(H200) as monitor:
        assert until(lambda: (found := monitor.telemetry()) is not None and found.samples >= 4)
    found = monitor.telemetry()
    assert found is not None
    assert (found.sm_clock_max_mhz, found.sm_clock_min_mhz) == (1980, 1300)
    assert (found.power_w, found.temperature_c) == (700.0, 61)
    assert found.throttle == ("power cap", "hardware thermal")
    assert found.trace is not None
    assert [each.sm_clock_mhz for each in found.trace[:4]] == [1980, 1980, 1400, 1300]
    assert {each.power_w for each in found.trace} == {700.0}
    moments = [each.seconds for each in found.trace]
    assert moments == sorted(moments)
    assert moments[0] == 0 and moments[-1] > 0


def test_a_long_trace_keeps_evenly_chosen_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.machine.nvml.SAMPLE_INTERVAL_S", 0.0)
    Driver(monkeypatch, answers=1000)
    with Monitor(H200) as monitor:
        assert until(lambda: (found := monitor.telemetry()) is not None and found.samples >= 900)
    found = monitor.telemetry()
    assert found is not None
    assert found.trace is not None
    assert 100 <= len(found.trace) <= 120


def test_a_chip_that_stops_answering_leaves_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch, answers=2)
    with Monitor(H200) as monitor:
        assert monitor._thread is not None
        monitor._thread.join()
        found = monitor.telemetry()
    assert found is not None
    assert found.samples == 2


@pytest.mark.parametrize("function", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetComputeRunningProcesses"])
def test_a_lost_device_is_named_and_what_only_cannot_be_said_is_nobody(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def fails(error: int) -> None:
        def fail(_: object) -> None:
            raise pynvml.NVMLError(error)

        monkeypatch.setattr(pynvml, function, fail)

    Driver(monkeypatch, answers=0)
    fails(pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(InfrastructureError, match=r"^NVIDIA H200 does not answer any more \(GPU is lost\); see dmesg"):
        strangers(H200, {1})
    fails(pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert strangers(H200, {1}) == []


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetHandleByIndex"])
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_monitor_of_a_lost_device_has_no_samples(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    def gone(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    Driver(monkeypatch, answers=1000)
    monkeypatch.setattr(pynvml, function, gone)
    with Monitor(H200) as monitor:
        assert monitor._thread is not None
        monitor._thread.join()
    assert monitor.telemetry() is None


def test_without_a_driver_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", absent)
    assert devices() == []
    assert compute_processes(H200) == []
    assert used_bytes(H200) == 0
    with Monitor(None) as monitor:
        pass
    assert monitor.telemetry() is None


@pytest.mark.parametrize("mig", [None, 0, 1])
def test_a_device_without_a_power_limit_or_sliced_by_mig_says_so(
    monkeypatch: pytest.MonkeyPatch, mig: int | None
) -> None:
    def mode(_: object) -> list[int]:
        if mig is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [mig, mig]

    def limit(_: object) -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    answers: dict[str, object] = {
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetUUID": "GPU-1",
        "nvmlSystemGetDriverVersion": "580",
    }
    answers |= {"nvmlInit": None, "nvmlShutdown": None, "nvmlDeviceGetCount": 1, "nvmlDeviceGetHandleByIndex": 0}
    for name, value in answers.items():
        monkeypatch.setattr(pynvml, name, lambda *_, value=value: value)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerManagementLimit", limit)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", mode)
    assert devices() == [Device(0, "NVIDIA H200", "GPU-1", "580", None, sliced=mig == 1)]


class Shown:
    """A driver that shows these processes on its device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
        monkeypatch.setattr(nvml, "compute_processes", lambda _: list(pids))


@pytest.mark.parametrize(
    ("shown", "found"),
    [((1, 2, 3), []), ((1, 2, 3, 99), [99]), ((), []), ((77, 99), [])],
    ids=["ours", "a neighbour", "none", "another name space"],
)
def test_a_neighbour_on_the_device_is_seen(
    monkeypatch: pytest.MonkeyPatch, shown: tuple[int, ...], found: list[int]
) -> None:
    Shown(monkeypatch, *shown)
    assert strangers(H200, {1, 2, 3}) == found
    assert strangers(None, {1, 2, 3}) == []
