"""What the doctor sees, on machines made of a PATH, a folder of files and a driver that answers."""

import importlib.metadata
import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psutil
import pynvml
import pytest

from harness import doctor
from harness.catalog.tree import Tree
from harness.container import engine
from harness.doctor import HealthFinding, finding, gpu, isolation, packages, tools
from harness.evidence import toolchain
from harness.judge.processes import memory_limit_bytes
from harness.machine import cores, memory
from harness.machine.hints import pip_install_here
from harness.records.base import Confinement
from harness.records.environment import IMAGE_VARIABLE

WAIT_S = finding.ANSWER_S
Findings = dict[str, HealthFinding]
Driver = Callable[..., None]


def named(findings: list[HealthFinding]) -> Findings:
    return {each.name: each for each in findings}


def examined() -> Findings:
    return named(doctor.examine())


def tool(path: Path, answer: str) -> Path:
    """A program that prints a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return path


def nvcc(folder: Path, release: str = "13.0") -> Path:
    return tool(folder / "nvcc", f"Cuda compilation tools, release {release}, V{release}.88")


def distribution(folder: Path, name: str, version: str, *lines: str, record: str = "") -> None:
    """An installed distribution, found once its folder is on sys.path."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "\n".join(("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, ""))
    )
    (info / "RECORD").write_text(record)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that comes before the environment's own, with a torch for CUDA 13.0."""
    folder = tmp_path / "site"
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("raise RuntimeError('the doctor must not import torch')\n")
    torch(folder, "'13.0'")
    monkeypatch.syspath_prepend(folder)
    return folder


def torch(folder: Path, cuda: str) -> None:
    (folder / "torch" / "version.py").write_text(f"__version__ = '2.13.0'\ncuda: Optional[str] = {cuda}\nhip = None\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bare machine: nothing on PATH but an empty folder, no GPU, no driver; returns that folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in ("CUDA_HOME", "CUDA_PATH", "CXX", "CC"):
        monkeypatch.delenv(name, raising=False)
    places: tuple[tuple[ModuleType, str], ...] = (
        (gpu, "PCI_DEVICES"),
        (toolchain, "CUDA_FOLDER"),
        (toolchain, "NSIGHT_FOLDERS"),
        (tools, "DRIVER_PARAMETERS"),
    )
    for module, name in places:
        monkeypatch.setattr(module, name, tmp_path / "none" / name)
    monkeypatch.setattr(pynvml, "nvmlInit", _no_driver)
    monkeypatch.setattr(finding, "ANSWER_S", 60)  # so that a busy machine's tools tell their versions too
    return folder


def _no_driver() -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


@pytest.fixture
def driver(machine: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """``driver(name, version, *pids)``: an NVIDIA driver with one GPU, as NVML tells of it."""

    def install(name: str = "NVIDIA H200", version: str = "580.95.05", *pids: int) -> None:
        class Process:
            def __init__(self, pid: int) -> None:
                self.pid = pid

        answers: dict[str, object] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlSystemGetDriverVersion": version,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": 0,
            "nvmlDeviceGetPowerManagementLimit": 700_000,
            "nvmlDeviceGetName": name,
            "nvmlDeviceGetUUID": "GPU-0",
            "nvmlDeviceGetComputeRunningProcesses": [Process(pid) for pid in pids],
        }
        for function, answer in answers.items():
            monkeypatch.setattr(pynvml, function, lambda *_, answer=answer: answer)

    return install


def pyproject(monkeypatch: pytest.MonkeyPatch, path: Path, *requirements: str, python: str = ">=3.11") -> None:
    """A checkout's pins, and no installed distribution that says otherwise."""
    lines = ["[project]", f'requires-python = "{python}"', f"dependencies = {list(requirements)!r}"]
    path.write_text("\n".join(lines))
    monkeypatch.setattr(packages, "PROJECT", path)
    monkeypatch.setattr(packages, "DISTRIBUTION", "tilebench-that-is-not-installed")


# This machine


def test_it_names_each_thing_once() -> None:
    findings = doctor.examine()
    names = [each.name for each in findings if not each.name.startswith("GPU")]
    assert len(names) == len(set(names))
    assert {"Python", "tilelang", "torch", "nvcc", "ncu", "C++ compiler", "CPU cores", "memory", "disk"} <= set(names)


def test_it_waits_for_all_at_once_and_for_none_longer_than_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    met = threading.Barrier(2, timeout=60)

    def check(_: object) -> list[HealthFinding]:
        met.wait()
        return [HealthFinding("met", True, False, "")]

    monkeypatch.setattr(doctor, "CHECKS", (("one", check), ("other", check)))
    assert [each.name for each in doctor.examine()] == ["met", "met"]
    assert max(WAIT_S, isolation.ENGINE_ANSWER_S) <= 1


def test_whatever_is_not_well_says_what_to_do_in_one_line(machine: Path) -> None:
    wrong = [each for each in doctor.examine() if not each.ok]
    assert wrong
    assert all(each.advice and "\n" not in each.advice + each.found for each in wrong)
    assert all(each.advice == "" for each in doctor.examine() if each.ok)


# Python and its packages


def test_pins_are_held_against_what_is_installed(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(site, "torch", "2.13.0+cpu")
    distribution(site, "tabulate", "0.9.0")
    requirements = ("torch==2.13.0", "tabulate==0.10.0", "no-such-package==1.0", "windows-only==1.0; os_name == 'nt'")
    pyproject(monkeypatch, tmp_path / "pyproject.toml", *requirements)
    found = examined()
    assert found["torch"].ok
    assert not found["tabulate"].ok
    assert found["tabulate"].needed
    assert "0.9.0" in found["tabulate"].found
    assert "pip install 'tabulate==0.10.0'" in found["tabulate"].advice
    assert found["no-such-package"].found == "not installed"
    assert "windows-only" not in found


def test_the_installed_distribution_is_asked_first(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(
        site,
        "tilebench-installed",
        "1.0",
        "Requires-Python: >=3.99",
        "Requires-Dist: tabulate==0.0.1",
        "Requires-Dist: pytest==0.0.1; extra == 'dev'",
    )
    monkeypatch.setattr(packages, "DISTRIBUTION", "tilebench-installed")
    found = examined()
    assert not found["Python"].ok
    assert ">=3.99" in found["Python"].advice
    assert not found["tabulate"].ok
    assert "pytest" not in found


def test_without_pins_nothing_can_be_held_against_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyproject(monkeypatch, tmp_path / "pyproject.toml")
    (tmp_path / "pyproject.toml").unlink()
    found = examined()["pinned packages"]
    assert (found.ok, found.needed) == (False, True)


def test_a_package_that_the_doctor_itself_lacks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("packaging", "packaging.requirements", "packaging.specifiers"):
        monkeypatch.setitem(sys.modules, name, None)
    found = examined()
    assert "packaging" in found["pinned packages"].found
    assert not found["Python"].ok
    assert "disk" in found


def test_a_torn_pyproject_is_a_finding_not_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyproject(monkeypatch, tmp_path / "pyproject.toml")
    (tmp_path / "pyproject.toml").write_text("[project\n")
    found = examined()
    assert "could not be examined" in found["pinned packages"].found
    assert found["disk"].ok or found["disk"].advice


def test_whatever_is_installed_is_held_against_the_locks(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "SHIPPED", tree.root)
    assert (examined()["locked packages"].ok, examined()["locked packages"].needed) == (False, False)
    (tree.root / "requirements.lock").write_text(
        "# pins\npsutil==7.2.2 \\\n    --hash=sha256:0\nno-such-package==1.0\ntorch==2.13.0\n"
    )
    (tree.root / "requirements-cuda.lock").write_text("no-such-library==13.0\n")
    assert examined()["locked packages"].found == "2 of the 4 that are pinned"
    (tree.root / "requirements.lock").write_text("psutil==0.0.1\n")
    found = examined()["locked packages"]
    assert not found.ok
    assert found.found == f"psutil {psutil.__version__}, not 0.0.1"


@pytest.mark.parametrize(("folder", "ok"), [("/proc", False), ("/nowhere at all", None)])
def test_room_for_the_image_is_looked_at_where_the_engine_is_this_machine_s(
    monkeypatch: pytest.MonkeyPatch, folder: str, ok: bool | None
) -> None:
    """A file system without blocks has no room."""
    monkeypatch.delenv(IMAGE_VARIABLE, raising=False)
    told = {"ServerVersion": "28", "DockerRootDir": folder}
    monkeypatch.setattr(engine, "connected", lambda _: nullcontext(SimpleNamespace(info=lambda: told)))
    found = {each.name: each for each in isolation.docker([])}
    assert found["Docker"].ok
    room = found.get("room for the image")
    assert (room.ok if room is not None else None) is ok
    assert room is None or f"the image takes {engine.IMAGE_GB} GB" in room.advice


def test_this_environment_is_the_locked_one() -> None:
    assert examined()["locked packages"].ok, examined()["locked packages"].found


def test_the_container_is_named_where_this_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(IMAGE_VARIABLE, raising=False)
    assert examined()["image"].found == "none: not in the container"
    monkeypatch.setenv(IMAGE_VARIABLE, "sha256:0123")
    assert examined()["image"].found == "sha256:0123"
    assert "Docker" not in examined()


# A machine without a GPU


@pytest.mark.parametrize(
    ("level", "whole"),
    [(Confinement.NAMESPACES, True), (Confinement.SYSTEM_CALLS, True), (Confinement.LIMITS, False)],
)
def test_how_linux_confines_is_said(level: Confinement, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_LEVEL", f"print('{level}')")
    (found,) = isolation.linux_confinement([])
    assert (found.ok, found.needed) == (whole, False)
    assert found.found.startswith(f"{level}: ")
    assert "docs/explanation/trust.md" in found.advice


def test_the_level_is_that_of_a_process_of_its_own() -> None:
    assert Confinement(examined()["confinement"].found.partition(":")[0]) in Confinement


def test_a_machine_without_a_gpu_needs_a_compiler_and_nothing_of_cuda(machine: Path) -> None:
    found = examined()
    assert {each.name for each in found.values() if each.needed and not each.ok} == {"C++ compiler"}
    assert (found["GPU"].ok, found["GPU"].needed) == (False, False)
    assert (found["nvcc"].ok, found["nvcc"].needed) == (False, False)
    assert "driver" not in found
    assert "counters" not in found


@pytest.mark.parametrize("name", ["g++", "clang++", "c++"])
def test_a_compiler_on_path_is_found(machine: Path, name: str) -> None:
    path = tool(machine / name, "a compiler")
    assert examined()["C++ compiler"] == HealthFinding("C++ compiler", True, True, str(path))


def test_cxx_decides_as_it_does_for_tilelang(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(machine / "g++", "a compiler")
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    found = examined()["C++ compiler"]
    assert not found.ok
    assert "CXX=no-such-compiler -O2" in found.found


def test_a_gpu_on_the_bus_without_a_driver_is_noticed(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "PCI_DEVICES", tmp_path / "pci")
    for name, vendor, kind in (("bridge", "0x10de", "0x060400"), ("gpu", "0x10de", "0x030200")):
        folder = tmp_path / "pci" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    assert "no driver" in examined()["GPU"].found
    (tmp_path / "pci" / "gpu" / "vendor").write_text("0x1002\n")
    assert examined()["GPU"].found == "no NVIDIA GPU"


def test_nvml_that_fails_in_an_odd_way_is_a_finding(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("the library is torn")

    monkeypatch.setattr(pynvml, "nvmlInit", broken)
    assert "the library is torn" in examined()["GPU"].found


# A machine with a GPU


def test_a_gpu_machine_that_is_complete(machine: Path, driver: Driver, tmp_path: Path) -> None:
    driver()
    nvcc(machine)
    tool(machine / "g++", "a compiler")
    tool(machine / "ncu", "Version 2025.3.1.0 (build 36398880) (public-release)")
    found = examined()
    wrong = [each for name, each in found.items() if not each.ok and name in ("GPU", "driver", "GPU processes", "nvcc")]
    assert wrong == []
    assert found["GPU"].found == "NVIDIA H200, key h200"
    assert found["driver"].found == "580.95.05, torch built for CUDA 13.0"
    assert found["nvcc"].found.startswith("13.0, ")
    assert found["ncu"].found.startswith("2025.3.1.0, ")
    assert all(found[name].needed for name in ("GPU", "driver", "nvcc", "GPU processes", "C++ compiler"))


def test_a_gpu_that_no_row_describes(driver: Driver) -> None:
    driver("NVIDIA GeForce GTX 1080")
    found = examined()["GPU"]
    assert (found.ok, found.needed) == (False, True)
    assert "gpus.toml" in found.advice


@pytest.mark.parametrize(
    ("cuda", "version", "ok"),
    [
        ("'13.0'", "580.65.06", True),
        ("'13.0'", "575.57.08", False),
        ("'12.8'", "525.60.13", True),
        ('"12.8"', "520.61.05", False),
        ("'14.1'", "580.65.06", True),
        ("None", "580.65.06", False),
    ],
)
def test_the_driver_must_be_new_enough_for_torch(driver: Driver, site: Path, cuda: str, version: str, ok: bool) -> None:
    driver(version=version)
    torch(site, cuda)
    found = examined()["driver"]
    assert (found.ok, found.needed) == (ok, True)
    assert ok or re.search(r"580|525|CUDA build", found.advice)


def test_another_process_on_the_gpu_is_named(driver: Driver) -> None:
    driver("NVIDIA H200", "580.95.05", 4711, 4712)
    found = examined()["GPU processes"]
    assert not found.ok
    assert "4711, 4712" in found.found


def test_nvcc_is_needed_on_a_gpu_machine(driver: Driver) -> None:
    driver()
    found = examined()["nvcc"]
    assert (found.ok, found.needed) == (False, True)
    assert pip_install_here("build") in found.advice


def test_cuda_home_decides_as_it_does_for_tilelang(
    machine: Path, driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver()
    nvcc(machine)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    found = examined()["nvcc"]
    assert not found.ok
    assert f"CUDA_HOME={tmp_path / 'cuda'}" in found.found
    path = nvcc(tmp_path / "cuda" / "bin", "12.9")
    assert examined()["nvcc"].found == f"12.9, {path}"


def test_nvcc_of_the_package_index_is_found(driver: Driver, site: Path) -> None:
    driver()
    path = nvcc(site / "nvidia" / "cu13" / "bin")
    distribution(site, "nvidia-cuda-nvcc", "13.0.88", record="nvidia/cu13/bin/nvcc.profile,,\nnvidia/cu13/bin/nvcc,,\n")
    assert importlib.metadata.version("nvidia-cuda-nvcc") == "13.0.88"
    assert examined()["nvcc"].found == f"13.0, {path}"


@pytest.mark.parametrize(
    ("gpu", "version", "release", "reason"),
    [
        ("NVIDIA B200", "580.95.05", "12.6", "sm_100a needs nvcc 12.8"),
        ("NVIDIA H200", "580.95.05", "11.8", "sm_90a needs nvcc 12.0"),
        ("NVIDIA H200", "570.86.15", "13.0", "needs driver 580"),
        ("NVIDIA H200", "570.86.15", "12.8", None),
    ],
)
def test_nvcc_must_fit_the_gpu_and_the_driver(
    machine: Path, driver: Driver, gpu: str, version: str, release: str, reason: str | None
) -> None:
    driver(gpu, version)
    nvcc(machine, release)
    found = examined()["nvcc"]
    assert found.ok == (reason is None)
    assert reason is None or reason in found.advice


def test_a_tool_that_hangs_is_there_all_the_same(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine / "nvcc"
    path.write_text("#!/bin/sh\nexec /bin/sleep 3600\n")
    path.chmod(0o755)
    monkeypatch.setattr(finding, "ANSWER_S", WAIT_S)
    monkeypatch.setattr(toolchain, "ANSWER_S", 3600)  # the patience of a build, which a doctor must not have
    toolchain.find.cache_clear()
    found = examined()["nvcc"]
    assert (found.ok, found.found) == (True, f"{path}, of unknown version")


def test_ncu_is_found_where_nsight_compute_puts_it(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver()
    monkeypatch.setattr(toolchain, "NSIGHT_FOLDERS", tmp_path / "nsight")
    tool(tmp_path / "nsight" / "2024.1.0" / "ncu", "Version 2024.1.0.0 (build 1)")
    newest = tool(tmp_path / "nsight" / "2025.3.1" / "ncu", "Version 2025.3.1.0 (build 1)")
    found = examined()["ncu"]
    assert (found.needed, found.found) == (False, f"2025.3.1.0, {newest}")


@pytest.mark.parametrize(
    ("parameter", "capabilities", "ok"),
    [
        ("RmProfilingAdminOnly: 0", "0000000000000000", True),
        ("RmProfilingAdminOnly: 1", "000001ffffffffff", True),
        ("RmProfilingAdminOnly: 1", "00000000a80425fb", False),  # root, in a container with Docker's usual rights
        ("RmProfilingAdminOnly: 1", "0000000000000000", False),
    ],
)
def test_counters_need_the_driver_to_be_open_or_an_administrator(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameter: str, capabilities: str, ok: bool
) -> None:
    driver()
    (tmp_path / "params").write_text(f"ResmanDebugLevel: 4294967295\n{parameter}\nPreserveVideoMemory: 0\n")
    (tmp_path / "status").write_text(f"Name:\tpython\nCapPrm:\t0000000000000000\nCapEff:\t{capabilities}\n")
    monkeypatch.setattr(tools, "DRIVER_PARAMETERS", tmp_path / "params")
    monkeypatch.setattr(tools, "CAPABILITIES", tmp_path / "status")
    found = examined()["counters"]
    assert (found.ok, found.needed) == (ok, False)
    assert ok or "NVreg_RestrictProfilingToAdminUsers=0" in found.advice


# Room


def test_a_control_group_limits_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits, used = (tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"), tmp_path / "memory.current"
    monkeypatch.setattr(memory, "GROUPS", [(limit, used) for limit in limits])
    used.write_text(f"{5 << 29}\n")
    (tmp_path / "memory.stat").write_text(f"anon {3 << 29}\ninactive_file {3 << 28}\nactive_file {1 << 28}\n")
    free, total = memory.free_bytes(), memory.total_bytes()
    limits[0].write_text("max\n")
    limits[1].write_text("9223372036854771712\n")
    assert memory.total_bytes() == total
    assert abs(memory.free_bytes() - free) < 1 << 30
    for limit in limits:
        limit.write_text(f"{2 << 30}\n")
        found = examined()["memory"]
        assert (found.ok, found.needed, found.found) == (False, False, "0.5 GiB free")  # files in memory are no use
        assert memory_limit_bytes() == 1 << 30
        limit.write_text("max\n")


def test_cores_are_those_this_process_may_use() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        found = examined()["CPU cores"]
    finally:
        os.sched_setaffinity(0, allowed)
    assert (found.ok, found.found) == (False, "1")


def test_a_control_group_limits_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    monkeypatch.setattr(cores, "QUOTAS", ((tmp_path / "cpu.max",),))
    found = examined()["CPU cores"]
    assert (found.ok, found.found) == (False, "1")


# The table


def test_the_table_marks_what_is_missing_apart_from_what_is_worth_a_note() -> None:
    findings = [
        HealthFinding("Python", True, True, "3.11.7"),
        HealthFinding("nvcc", False, True, "not on PATH", "install the CUDA toolkit"),
        HealthFinding("ncu", False, False, "not found", "install Nsight Compute"),
    ]
    _, _, *rows = doctor.table(findings).splitlines()
    assert [row.split()[:2] for row in rows] == [["ok", "Python"], ["missing", "nvcc"], ["note", "ncu"]]
    assert "install the CUDA toolkit" in rows[1]


def test_opponents_of_this_machine_are_listed_with_the_command(machine: Path) -> None:
    found = examined()
    assert found["opponent tilelang_stock_cpu"].ok
    assert "opponent quack" not in found


def test_opponents_of_a_gpu_that_are_missing_are_a_note(driver: Driver) -> None:
    driver()
    found = examined()["opponent quack"]
    assert not found.ok
    assert not found.needed
    assert "quack-kernels==0.6.5" in found.found
    assert found.advice == "make opponents-quack"
