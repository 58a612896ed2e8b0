"""The doctor: what this machine has, what it lacks for the main job, and what to do about each."""

import contextlib
import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from tabulate import tabulate

from harness import gpus
from harness.nvml import Device, compute_processes, devices
from harness.profile import ncu
from harness.static import toolchain
from harness.tree import Tree

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION: Final = "tilebench"
PROJECT: Final = Path(__file__).resolve().parent.parent / "pyproject.toml"
DRIVER_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
PCI_DEVICES: Final = Path("/sys/bus/pci/devices")
MEMORY: Final = Path("/proc/meminfo")
MEMORY_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
CAPABILITIES: Final = Path("/proc/self/status")
CUDA_FOLDER: Final = Path("/usr/local/cuda")
NCU_FOLDERS: Final = Path("/opt/nvidia/nsight-compute")

ANSWER_S: Final = 0.8  # a tool that takes longer to tell its version is there all the same
LEAST_DISK_GIB: Final = 2.0  # the compile cache and the records of a few hundred iterations
LEAST_MEMORY_GIB: Final = 4.0  # referee and contestant each hold torch, and builds run beside them
LEAST_CORES: Final = 2
SYS_ADMIN: Final = 21  # bit of CAP_SYS_ADMIN

# CUDA major version -> the first driver branch that runs it (CUDA compatibility guide, minor version compatibility).
LEAST_DRIVER: Final = {11: 450, 12: 525, 13: 580}
# Architecture -> the first nvcc that compiles for it (CUDA release notes).
LEAST_NVCC: Final = {"sm_80": (11, 0), "sm_89": (11, 8), "sm_90a": (12, 0), "sm_100a": (12, 8)}


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at: what was found and, where that is not ok, what to do about it.

    ``needed`` where the main job on this machine does not run without it.
    """

    name: str
    ok: bool
    needed: bool
    found: str
    advice: str = ""


class Project(msgspec.Struct, frozen=True, rename="kebab"):
    """What pyproject.toml says of the environment."""

    dependencies: list[str] = []
    requires_python: str = ">=3.11"


class ProjectFile(msgspec.Struct, frozen=True):
    project: Project


Check = Callable[[], Iterable[Finding]]


def examine() -> list[Finding]:
    """Look at everything, in under a second; what cannot be examined is a finding too."""
    try:
        present = devices()
    except Exception as error:  # NVML has many ways to fail, and each leaves a machine that can use the CPU
        present = []
        trouble = [Finding("GPU", False, False, f"NVML failed: {error}", "run nvidia-smi; reboot where it fails too")]
    else:
        trouble = []
    checks: tuple[tuple[str, Check], ...] = (
        ("Python", _python),
        ("pinned packages", _packages),
        ("GPU", lambda: trouble or _gpu(present)),
        ("driver", lambda: _driver(present)),
        ("GPU processes", lambda: _processes(present)),
        ("nvcc", lambda: _nvcc(present)),
        ("cuobjdump", lambda: [Finding(*each) for each in toolchain.findings()]),
        ("C++ compiler", _compiler),
        ("ncu", lambda: _ncu(present)),
        ("counters", lambda: _counters(present)),
        ("CPU cores", _cores),
        ("memory", _memory),
        ("disk", _disk),
    )
    with ThreadPoolExecutor(len(checks)) as pool:
        return [finding for findings in pool.map(lambda check: _careful(*check), checks) for finding in findings]


def table(findings: list[Finding]) -> str:
    """The findings, for a terminal."""
    rows = [(_mark(each), each.name, each.found, each.advice) for each in findings]
    return tabulate(
        rows,
        headers=("", "what", "found", "what to do"),
        disable_numparse=True,
        maxcolwidths=[None, None, 44, 64],
    )


def _mark(finding: Finding) -> str:
    if finding.ok:
        return "ok"
    return "missing" if finding.needed else "note"


def _careful(name: str, check: Check) -> list[Finding]:
    try:
        return [msgspec.structs.replace(each, advice="") if each.ok else each for each in check()]
    except ModuleNotFoundError as error:
        return [Finding(name, False, False, f"could not be examined: {error}", f"pip install {error.name}")]
    except Exception as error:  # a doctor that fails over what it finds helps nobody
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return [Finding(name, False, False, f"could not be examined: {reason}", "look at it by hand")]


# Python and its packages


def _python() -> Iterable[Finding]:
    from packaging.specifiers import SpecifierSet  # here, because a machine that lacks packages is what a doctor is for

    needed = _requires_python()
    found = platform.python_version()
    ok = SpecifierSet(needed).contains(found, prereleases=True)
    yield Finding("Python", ok, True, found, f"install Python {needed} and set the environment up again")


def _packages() -> Iterable[Finding]:
    pins = _requirements()
    if not pins:
        yield Finding("pinned packages", False, True, "no pins found", "run from a checkout that has pyproject.toml")
    for pin in pins:
        if pin.marker is not None and not pin.marker.evaluate({"extra": ""}):
            continue
        remedy = f"install the pinned version: pip install '{pin.name}{pin.specifier}'"
        try:
            found = importlib.metadata.version(pin.name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(pin.name, False, True, "not installed", remedy)
            continue
        ok = pin.specifier.contains(found, prereleases=True)
        yield Finding(pin.name, ok, True, found if ok else f"{found}, not {pin.specifier}", remedy)


def _requirements() -> "list[Requirement]":
    """The pins of the installed distribution, else those of the checkout."""
    from packaging.requirements import Requirement

    try:
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        lines = _project().dependencies
    pins = [Requirement(line) for line in lines]
    return sorted((pin for pin in pins if pin.specifier), key=lambda pin: pin.name.lower())


def _requires_python() -> str:
    try:
        return str(importlib.metadata.metadata(DISTRIBUTION).json["requires_python"])
    except (importlib.metadata.PackageNotFoundError, KeyError):
        return _project().requires_python


def _project() -> Project:
    try:
        return msgspec.toml.decode(PROJECT.read_bytes(), type=ProjectFile).project
    except FileNotFoundError:
        return Project()


# The GPU and its driver


def _gpu(present: list[Device]) -> Iterable[Finding]:
    if not present and _on_the_bus():
        advice = "install the driver, or start the container with --gpus all; until then GPU=auto means the CPU"
        yield Finding("GPU", False, False, "an NVIDIA GPU on the bus, but no driver that answers", advice)
    elif not present:
        advice = "nothing, unless this machine should have one: GPU=auto means the CPU here"
        yield Finding("GPU", False, False, "no NVIDIA GPU", advice)
    for index, device in enumerate(present):
        key = gpus.key_of(device.name)
        known = f"{device.name}, key {key}" if key else f"{device.name}, which matches no GPU key"
        # the first is the one that GPU=auto takes
        yield Finding("GPU", key is not None, index == 0, known, "add a row for it to harness/gpus.toml")


def _on_the_bus() -> bool:
    for folder in PCI_DEVICES.glob("*"):
        try:
            vendor, kind = ((folder / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == "0x10de" and kind.startswith("0x03"):  # NVIDIA, display controller
            return True
    return False


def _driver(present: list[Device]) -> Iterable[Finding]:
    if not present:
        return
    driver, cuda = present[0].driver, _torch_cuda()
    if cuda is None:
        advice = "install torch's CUDA build; the wheel on PyPI is one"
        yield Finding("driver", False, True, f"{driver}, but torch is built without CUDA", advice)
        return
    least = LEAST_DRIVER.get(cuda[0])
    found = f"{driver}, torch built for CUDA {_dotted(cuda)}"
    if least is None:
        yield Finding("driver", True, True, f"{found}, whose least driver is not known here")
        return
    advice = f"CUDA {cuda[0]} needs driver {least} or newer: update it, or install a torch for an older CUDA"
    yield Finding("driver", _major(driver) >= least, True, found, advice)


def _torch_cuda() -> tuple[int, ...] | None:
    """The CUDA version that torch was built for, from its version file: importing it takes seconds."""
    spec = PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    match = re.search(r"^cuda\b[^=\n]*=\s*['\"]([0-9.]+)['\"]", text, re.MULTILINE)
    return _version(match[1]) if match else None


def _processes(present: list[Device]) -> Iterable[Finding]:
    for device in present:
        pids = compute_processes(device)
        found = f"process {', '.join(map(str, pids))} on GPU {device.index}" if pids else f"none on GPU {device.index}"
        advice = "wait until it ends, or end it: the harness refuses to measure beside another process"
        yield Finding("GPU processes", not pids, device == present[0], found, advice)


# Tools


def _nvcc(present: list[Device]) -> Iterable[Finding]:
    needed = bool(present)
    path = _find_nvcc()
    if path is None:
        home = _cuda_home()
        found = f"not in CUDA_HOME={home}, where TileLang looks" if home else "not on PATH"
        advice = "install the CUDA toolkit, or pip install nvidia-cuda-nvcc; then kernels for a GPU compile"
        yield Finding("nvcc", False, needed, found, advice)
        return
    version = _version_of(path, r"release ([0-9]+\.[0-9]+)")
    found = f"{_dotted(version)}, {path}" if version else f"{path}, of unknown version"
    if not present or version is None:
        yield Finding("nvcc", True, needed, found)
        return
    driver, key = present[0].driver, gpus.key_of(present[0].name)
    arch = gpus.find(key).arch if key else ""
    oldest, least = LEAST_NVCC.get(arch, (0, 0)), LEAST_DRIVER.get(version[0], 0)
    if version < oldest:
        yield Finding("nvcc", False, needed, found, f"{arch} needs nvcc {_dotted(oldest)} or newer: install that")
    elif _major(driver) < least:
        advice = f"what nvcc {version[0]} compiles needs driver {least} or newer: update it, or install an older nvcc"
        yield Finding("nvcc", False, needed, f"{found}; driver {driver}", advice)
    else:
        yield Finding("nvcc", True, needed, found)


def _find_nvcc() -> Path | None:
    """nvcc where TileLang looks for it, in its order: CUDA_HOME, PATH, the package on PyPI, the usual folder."""
    home = _cuda_home()
    if home is not None:
        return _executable(Path(home) / "bin" / "nvcc")
    on_path = shutil.which("nvcc")
    if on_path is not None:
        return Path(on_path)
    try:
        files = importlib.metadata.files("nvidia-cuda-nvcc") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    packaged = [Path(str(file.locate())) for file in files if file.name == "nvcc"]
    return next(filter(None, map(_executable, [*packaged, CUDA_FOLDER / "bin" / "nvcc"])), None)


def _cuda_home() -> str | None:
    return os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")


def _compiler() -> Iterable[Finding]:
    """TileLang's choice: CXX, CC, or the first of three on PATH."""
    named = os.environ.get("CXX") or os.environ.get("CC")
    if named:
        path, name = shutil.which(shlex.split(named)[0]), f"CXX={named}" if os.environ.get("CXX") else f"CC={named}"
        found = path or f"{name}, which is not on PATH"
    else:
        path = next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))), None)
        found = path or "none of g++, clang++, c++ on PATH"
    advice = "install g++ (apt-get install g++), or set CXX: kernels for a CPU, and nvcc, need a C++ compiler"
    yield Finding("C++ compiler", path is not None, True, found, advice)


def _ncu(present: list[Device]) -> Iterable[Finding]:
    path = ncu.find(CUDA_FOLDER, NCU_FOLDERS)
    if path is not None:
        version = _version_of(path, r"Version ([0-9.]+[0-9])")
        yield Finding("ncu", True, False, f"{_dotted(version)}, {path}" if version else f"{path}, of unknown version")
    elif present:
        yield Finding("ncu", False, False, "not found", "install Nsight Compute to profile; timing works without it")
    else:
        yield Finding("ncu", False, False, "not found", "nothing: there is no GPU to profile")


def _counters(present: list[Device]) -> Iterable[Finding]:
    """Whether the driver lets this user read the performance counters that ncu needs."""
    if not present:
        return
    try:
        restricted = re.search(r"^RmProfilingAdminOnly:\s*1\b", DRIVER_PARAMETERS.read_text(), re.MULTILINE) is not None
    except OSError:
        yield Finding("counters", True, False, f"{DRIVER_PARAMETERS} cannot be read; ncu will tell")
        return
    if not restricted:
        yield Finding("counters", True, False, "open to every user")
    elif _is_admin():
        yield Finding("counters", True, False, "restricted to administrators, and this is one")
    else:
        advice = (
            "add 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' to /etc/modprobe.d/nvidia.conf and reboot, "
            "or run as root (in a container: --cap-add=SYS_ADMIN)"
        )
        yield Finding("counters", False, False, "restricted to administrators: ncu ends with ERR_NVGPUCTRPERM", advice)


def _is_admin() -> bool:
    """The driver asks for CAP_SYS_ADMIN; root in a container often lacks it."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", CAPABILITIES.read_text(), re.MULTILINE)
    return match is not None and bool(int(match[1], 16) >> SYS_ADMIN & 1)


# Room


def _cores() -> Iterable[Finding]:
    count = len(os.sched_getaffinity(0))
    yield Finding("CPU cores", count >= LEAST_CORES, False, str(count), "with one core, builds wait for measurements")


def _memory() -> Iterable[Finding]:
    match = re.search(r"^MemAvailable:\s*([0-9]+) kB", MEMORY.read_text(), re.MULTILINE)
    if match is None:
        return
    free = int(match[1]) * 1024
    with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit
        free = min(free, int(MEMORY_LIMIT.read_text()))
    gib = free / 2**30
    advice = f"below {LEAST_MEMORY_GIB:.0f} GiB processes may be killed: end others, or raise the container's limit"
    yield Finding("memory", gib >= LEAST_MEMORY_GIB, False, f"{gib:.1f} GiB free", advice)


def _disk() -> Iterable[Finding]:
    root = Tree.here().root
    gib = shutil.disk_usage(root).free / 2**30
    advice = f"below {LEAST_DISK_GIB:.0f} GiB the compile cache may not fit: free some"
    yield Finding("disk", gib >= LEAST_DISK_GIB, False, f"{gib:.1f} GiB free for {root}", advice)


# Versions


def _executable(path: Path) -> Path | None:
    return path if path.is_file() and os.access(path, os.X_OK) else None


def _version_of(tool: Path, pattern: str) -> tuple[int, ...] | None:
    """What a tool's ``--version`` says; None where it does not answer in time."""
    try:
        answer = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(pattern, answer.stdout)
    return _version(match[1]) if match else None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _major(driver: str) -> int:
    return _version(driver)[0]
