"""Where a record is made is described by what lies there, and a key that is not the device's is marked."""

from pathlib import Path

import pytest

from harness.catalog import gpus
from harness.machine import clock_lock
from harness.machine.nvml import Device
from harness.records.environment import describe
from tests.harness.checkout import ROOT as CHECKOUT

H200 = Device(0, "NVIDIA H200", "GPU-1", "570.1", 700.0)


@pytest.fixture
def root() -> Path:
    return CHECKOUT


def test_a_cpu_is_described_by_its_own_name(root: Path) -> None:
    found = describe(root, gpus.find("cpu"), None, "matmul")
    assert found.gpu == "cpu"
    assert found.device
    assert not found.forced
    assert found.torch != "none"
    assert found.tilelang == "0.1.15"


def test_a_gpu_is_described_as_the_driver_names_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEBENCH_IMAGE", "sha256:1")
    found = describe(root, gpus.find("h200"), H200, "matmul")
    assert (found.device, found.device_uuid, found.driver) == ("NVIDIA H200", "GPU-1", "570.1")
    assert found.image == "sha256:1"
    assert not found.forced


def test_a_key_that_is_not_the_devices_is_marked_and_not_ranked_with_others(root: Path) -> None:
    forced, honest = (describe(root, gpus.find(key), H200, "matmul") for key in ("h100", "h200"))
    assert forced.forced
    assert forced.rank_key != honest.rank_key
    assert "forced as h100" in forced.line()


def test_a_locked_clock_is_recorded_and_ranked_apart(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = describe(root, gpus.find("h200"), H200, "matmul")
    monkeypatch.setitem(clock_lock._held, "GPU-1", 1410)
    held = describe(root, gpus.find("h200"), H200, "matmul")
    assert (free.locked_mhz, held.locked_mhz) == (None, 1410)
    assert free.rank_key != held.rank_key
    assert "NVIDIA H200 at 1410 MHz, " in held.line() and "MHz" not in free.line()
