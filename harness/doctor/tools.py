"""The compilers that TileLang calls, the profiler, and the right to read counters."""

import os
import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from harness.catalog import gpus
from harness.doctor import finding
from harness.doctor.finding import HealthFinding, described, dotted, major
from harness.evidence import toolchain
from harness.judge.facts import architectures
from harness.machine.hints import adds, pip_install_here
from harness.machine.nvml import Device

DRIVER_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
CAPABILITIES: Final = Path("/proc/self/status")
SYS_ADMIN: Final = 21  # bit of CAP_SYS_ADMIN


def nvcc(present: list[Device]) -> Iterable[HealthFinding]:
    needed = bool(present)
    path = toolchain.nvcc_path()
    if path is None:
        home = toolchain.cuda_home()
        found = f"not in CUDA_HOME={home}, where TileLang looks" if home else "not on PATH"
        advice = f"install the CUDA toolkit, or {pip_install_here(toolchain.EXTRA)}; then kernels for a GPU compile"
        yield HealthFinding("nvcc", False, needed, found, advice)
        return
    version, found = described(path, r"release ([0-9]+\.[0-9]+)")
    if not present or version is None:
        yield HealthFinding("nvcc", True, needed, found)
        return
    driver, key = present[0].driver, gpus.key_of(present[0].name)
    arch = gpus.find(key).arch if key else ""
    row = architectures.find(arch)
    oldest, least = row.least_nvcc if row else (0, 0), gpus.LEAST_DRIVER.get(version[0], 0)
    if version < oldest:
        yield HealthFinding("nvcc", False, needed, found, f"{arch} needs nvcc {dotted(oldest)} or newer: install that")
    elif major(driver) < least:
        advice = f"what nvcc {version[0]} compiles needs driver {least} or newer: update it, or install an older nvcc"
        yield HealthFinding("nvcc", False, needed, f"{found}; driver {driver}", advice)
    else:
        yield HealthFinding("nvcc", True, needed, found)


def cuobjdump(_: list[Device]) -> Iterable[HealthFinding]:
    tool = toolchain.cuobjdump(finding.ANSWER_S)
    found = f"{tool.version}, {tool.path}" if tool else "not in a toolkit, nor from PyPI"
    extra = toolchain.DISASSEMBLER_EXTRA
    advice = f"{adds('build', extra)}; builds then count instructions too"
    yield HealthFinding("cuobjdump", tool is not None, False, found, advice)


def compiler(_: list[Device]) -> Iterable[HealthFinding]:
    """TileLang takes CXX, CC, or the first of its compilers on PATH."""
    named = toolchain.named_compiler()
    if named:
        path = _program(named)
        found = path or f"{'CXX' if os.environ.get('CXX') else 'CC'}={named}, which is not on PATH"
    else:
        path = toolchain.compiler_on_path()
        found = path or f"none of {', '.join(toolchain.HOST_COMPILERS)} on PATH"
    advice = "install g++ (apt-get install g++), or set CXX: kernels for a CPU, and nvcc, need a C++ compiler"
    yield HealthFinding("C++ compiler", path is not None, True, found, advice)


def _program(command: str) -> str | None:
    try:
        return shutil.which(next(iter(shlex.split(command)), ""))
    except ValueError:  # quotes that do not close
        return None


def ncu(present: list[Device]) -> Iterable[HealthFinding]:
    path = toolchain.ncu_path()
    if path is not None:
        yield HealthFinding("ncu", True, False, described(path, r"Version ([0-9.]+[0-9])")[1])
        return
    advice = "install Nsight Compute to profile; timing works without it"
    yield HealthFinding("ncu", False, False, "not found", advice if present else "nothing: there is no GPU to profile")


def counters(present: list[Device]) -> Iterable[HealthFinding]:
    """Whether the driver lets this user read the performance counters that ncu needs."""
    if not present:
        return
    try:
        restricted = re.search(r"^RmProfilingAdminOnly:\s*1\b", DRIVER_PARAMETERS.read_text(), re.MULTILINE) is not None
    except OSError:
        yield HealthFinding("counters", True, False, f"{DRIVER_PARAMETERS} cannot be read; ncu will tell")
        return
    if not restricted:
        yield HealthFinding("counters", True, False, "open to every user")
    elif _is_admin():
        yield HealthFinding("counters", True, False, "restricted to administrators, and this is one")
    else:
        found = f"restricted to administrators: ncu ends with {toolchain.NCU_PERMISSION}"
        yield HealthFinding("counters", False, False, found, toolchain.OPEN_COUNTERS)


def _is_admin() -> bool:
    """The driver asks for CAP_SYS_ADMIN; root in a container often lacks it."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", CAPABILITIES.read_text(), re.MULTILINE)
    return match is not None and bool(int(match[1], 16) >> SYS_ADMIN & 1)
