"""A locked clock, on a driver that is made up: it is given back however the command ends."""

import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from harness.errors import InfrastructureError, UsageError
from harness.machine.clock_lock import folder, locked, locked_mhz, restore_left
from harness.machine.nvml import Device
from tests.harness.checkout import ROOT

H200 = Device(0, "NVIDIA H200", "GPU-1", "580", 700.0)
KILLED = """
import os, signal, pynvml
from harness.machine.clock_lock import locked
from harness.machine.nvml import Device
for name in ("nvmlInit", "nvmlShutdown"):
    setattr(pynvml, name, lambda: None)
pynvml.nvmlDeviceGetHandleByUUID = lambda uuid: uuid
pynvml.nvmlDeviceGetSupportedMemoryClocks = lambda _: [2619]
pynvml.nvmlDeviceGetSupportedGraphicsClocks = lambda *_: [1410]
pynvml.nvmlDeviceSetGpuLockedClocks = lambda *_: None
with locked(Device(0, "NVIDIA H200", "GPU-1", "580", 700.0), 1410):
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Driver:
    """A chip with three steps; ``locked`` holds its clock, and ``refuses`` NVML's error for a change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.locked: tuple[int, int] | None = None
        self.refuses: int | None = None
        for name in ("nvmlInit", "nvmlShutdown"):
            monkeypatch.setattr(pynvml, name, lambda: None)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetSupportedMemoryClocks", lambda _: [2619, 1593])
        monkeypatch.setattr(pynvml, "nvmlDeviceGetSupportedGraphicsClocks", lambda *_: [1980, 1410, 345])
        monkeypatch.setattr(pynvml, "nvmlDeviceSetGpuLockedClocks", lambda _, low, high: self.change((low, high)))
        monkeypatch.setattr(pynvml, "nvmlDeviceResetGpuLockedClocks", lambda _: self.change(None))

    def change(self, clocks: tuple[int, int] | None) -> None:
        if self.refuses is not None:
            raise pynvml.NVMLError(self.refuses)
        self.locked = clocks


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Driver:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return Driver(monkeypatch)


@pytest.mark.parametrize("ending", [None, KeyboardInterrupt, UsageError])
def test_the_clock_is_given_back_however_the_work_ends(driver: Driver, ending: type[BaseException] | None) -> None:
    def work() -> None:
        with locked(H200, 1410):
            assert (driver.locked, locked_mhz(H200)) == ((1410, 1410), 1410)
            if ending is not None:
                raise ending("the reason")

    if ending is None:
        work()
    else:
        with pytest.raises(ending):
            work()
    assert (driver.locked, locked_mhz(H200), list(folder().iterdir())) == (None, None, [])


def test_after_a_kill_the_next_command_gives_it_back_and_says_so(driver: Driver, tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False)
    assert done.returncode == -9
    driver.change((1410, 1410))
    assert list(restore_left()) == ["the clock of GPU-1 is free again; a command that was killed had locked it"]
    assert driver.locked is None
    assert list(restore_left()) == []


def test_the_clock_of_a_living_process_stays(driver: Driver) -> None:
    with locked(H200, 1410):
        assert list(restore_left()) == []
        assert driver.locked == (1410, 1410)
        with pytest.raises(UsageError, match="another run holds the clock of NVIDIA H200"), locked(H200, 345):
            pass
        assert driver.locked == (1410, 1410)


@pytest.mark.parametrize(
    ("mhz", "refuses", "says"),
    [
        (1400, None, "--lock-clock 1400: NVIDIA H200 has steps from 345 to 1980 MHz; the nearest is 1410"),
        (1410, pynvml.NVML_ERROR_NO_PERMISSION, "run as root, or leave the option out"),
        (1410, pynvml.NVML_ERROR_NOT_SUPPORTED, "leave the option out"),
    ],
)
def test_what_may_not_be_locked_is_one_line(driver: Driver, mhz: int, refuses: int | None, says: str) -> None:
    driver.refuses = refuses
    with pytest.raises(UsageError, match=says), locked(H200, mhz):
        pass
    assert list(folder().iterdir()) == []


def test_a_clock_that_cannot_be_given_back_is_told_and_tried_again(driver: Driver) -> None:
    says = r"still locked: .*; free it: nvidia-smi -i GPU-1 -rgc"
    with pytest.raises(InfrastructureError, match=says), locked(H200, 1410):
        driver.refuses = pynvml.NVML_ERROR_NO_PERMISSION
    assert ["still locked" in each for each in restore_left()] == [True]
    driver.refuses = None
    assert ["free again" in each for each in restore_left()] == [True]
