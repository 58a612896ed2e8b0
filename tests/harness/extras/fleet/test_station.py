"""A host of other versions, or with a GPU that cannot be used, is named: its rows would be of another environment."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from harness.extras.fleet import station
from harness.extras.fleet.station import Station, code_sha256, off, unfit
from harness.machine.nvml import Device
from tests.harness.examples import ENVIRONMENT

ROOT = Path(station.__file__).resolve().parents[3]
OWN = Station("here", "code", None, ENVIRONMENT)


def there(index: int, driver: str = "590.1", **versions: str) -> Station:
    device = Device(index, "NVIDIA H200", f"GPU-{index}", driver, 700.0)
    found = msgspec.structs.replace(ENVIRONMENT, device=device.name, device_uuid=device.uuid, driver=driver, **versions)
    return Station("there", "code", device, found)


def test_hosts_of_the_same_versions_are_used() -> None:
    assert unfit(OWN, [there(0), there(1)]) == {}


def test_another_tilelang_than_the_drivers_is_named() -> None:
    assert unfit(OWN, [other := there(0, tilelang="9")]) == {other: "its TileLang is 9, and the driver's is 0.1.15"}


@pytest.mark.parametrize(
    ("name", "called"), [("python", "Python"), ("torch", "torch"), ("tvm_ffi", "TVM FFI"), ("image", "image")]
)
def test_another_version_than_most_have_is_named(name: str, called: str) -> None:
    most = getattr(ENVIRONMENT, name)
    assert unfit(OWN, [there(0), other := there(1, **{name: "9"}), there(2)]) == {
        other: f"its {called} is 9, that of most is {most}"
    }


def test_the_drivers_machine_may_have_another_torch() -> None:
    assert unfit(OWN, [there(0, torch="2.13.0+cu130"), there(1, torch="2.13.0+cu130")]) == {}


def test_another_revision_is_named() -> None:
    other = replace(there(1), code_sha256="older")
    assert "another revision of tilebench" in unfit(OWN, [there(0), other])[other]


def test_the_nvidia_driver_is_that_of_most() -> None:
    other = there(2, "580.9")
    assert unfit(OWN, [there(0), other, there(1)]) == {other: "its NVIDIA driver is 580.9, that of most is 590.1"}


def test_a_gpu_that_cannot_be_used_says_why() -> None:
    busy = Station("there", "code", there(0).device, fault="in use by process 7")
    assert unfit(OWN, [busy, there(1)]) == {busy: "in use by process 7"}
    assert busy.name == "there GPU 0"


def test_a_clock_that_is_off_by_an_hour_is_named_and_its_host_is_used() -> None:
    stations = [replace(there(0), host=host, clock_s=clock_s) for host, clock_s in (("a", 1e9), ("b", 1e9 + 3600))]
    stations += [replace(there(1), host="c", clock_s=1e9 - 3600), replace(there(2), host="d", clock_s=1e9 - 60)]
    assert off(1e9, stations) == {
        "b": "its clock is 60 minutes ahead of the driver's; set it",
        "c": "its clock is 60 minutes behind the driver's; set it",
    }
    assert unfit(OWN, stations) == {}


def test_a_host_with_another_gpu_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "harness.catalog.gpus.devices", lambda: [Device(0, "NVIDIA H100 80GB HBM3", "GPU-0", "1", 700.0)]
    )
    found = station.here(ROOT, "h200")
    assert "H100" in unfit(OWN, [found])[found]


def test_a_host_for_builds_needs_no_gpu() -> None:
    found = station.here(ROOT, "h200", uses_device=False)
    assert unfit(found, [found]) == {}


def test_every_file_of_the_code_is_in_the_revision(tmp_path: Path) -> None:
    for name in ("harness/a.py", "harness/catalog/gpus.toml", "kernels/pinned/h200.json", "baselines/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    seen = {code_sha256(tmp_path)}
    for number, path in enumerate(sorted(path for path in tmp_path.rglob("*") if path.is_file()), start=2):
        path.write_text("2")
        seen.add(code_sha256(tmp_path))
        assert len(seen) == number
    (tmp_path / "harness" / "__pycache__").mkdir()
    (tmp_path / "harness" / "__pycache__" / "a.pyc").write_text("1")
    assert code_sha256(tmp_path) in seen


def test_a_cpu_is_a_station(tmp_path: Path) -> None:
    found = station.here(ROOT, "cpu")
    assert found.fault is None and found.environment is not None and found.chip == ""
    assert unfit(found, [found]) == {}


def test_a_key_that_this_machine_has_not_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.catalog.gpus.devices", list)
    assert "no NVIDIA GPU" in str(station.here(ROOT, "h200").fault)
