"""The toolchain: nvcc, which makes the cubin, and cuobjdump, which reads it; from a toolkit or from PyPI."""

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import InfrastructureError

CUDA_FOLDER: Final = Path("/usr/local/cuda")
NSIGHT_FOLDERS: Final = Path("/opt/nvidia/nsight-compute")
HOST_COMPILERS: Final = ("g++", "clang++", "c++")  # TileLang's own choice, in its order
ANSWER_S: Final = 20.0
EXTRA: Final = "build"  # nvcc and the disassembler
DISASSEMBLER_EXTRA: Final = "sass"  # the disassembler alone, beside a toolkit that lacks it
NCU_PERMISSION: Final = "ERR_NVGPUCTRPERM"  # what ncu says where the driver restricts the counters
OPEN_COUNTERS: Final = (
    "add 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' to /etc/modprobe.d/nvidia.conf and reboot, or run as "
    "root (in a container: --cap-add=SYS_ADMIN); --no-counters gives names and durations"
)


class Tool(msgspec.Struct, frozen=True):
    """One program and its version, such as 13.0.88."""

    path: Path
    version: str


class Toolchain(msgspec.Struct, frozen=True):
    """What was found: without nvcc no kernel compiles for a GPU, without cuobjdump no instruction is counted."""

    nvcc: Tool | None
    cuobjdump: Tool | None
    host_compiler: str | None

    def require(self, *, cpu: bool) -> None:
        """Raise InfrastructureError where no kernel can compile, whatever it says."""
        if not cpu and self.nvcc is None:
            raise InfrastructureError(
                "no nvcc on PATH, in CUDA_HOME or from PyPI, so nothing compiles for a GPU; "
                f"`make build` installs it, or: pip install 'tilebench[{EXTRA}]'"
            )
        if self.host_compiler is None:
            raise InfrastructureError(
                "there is no C++ compiler, which kernels for a CPU need, and nvcc too; "
                "install g++ (apt-get install g++), or set CXX"
            )

    @property
    def missing_extra(self) -> str | None:
        """The project's extra that would complete it; None where nothing is missing."""
        if self.nvcc is None:
            return EXTRA
        return DISASSEMBLER_EXTRA if self.cuobjdump is None else None


@cache
def find() -> Toolchain:
    """This machine's toolchain. nvcc is the one that TileLang takes, cuobjdump any that is there."""
    return Toolchain(
        nvcc=_tool(nvcc_path()),
        cuobjdump=_tool(next(_candidates("cuobjdump", "nvidia-cuda-cuobjdump"), None)),
        host_compiler=os.environ.get("CXX")
        or os.environ.get("CC")
        or next(filter(None, map(shutil.which, HOST_COMPILERS)), None),
    )


def nvcc_path() -> Path | None:
    """nvcc in TileLang's order: CUDA_HOME alone where it is set, else PATH, PyPI, the usual folder."""
    home = cuda_home()
    if home is not None:
        return _executable(home / "bin" / "nvcc")
    return next(_candidates("nvcc", "nvidia-cuda-nvcc"), None)


def ncu_path() -> Path | None:
    """ncu on PATH, in the CUDA toolkit, or in the newest Nsight Compute under /opt/nvidia."""
    on_path = shutil.which("ncu")
    if on_path is not None:
        return Path(on_path)
    homes = filter(None, (cuda_home(), CUDA_FOLDER))
    folders = sorted(NSIGHT_FOLDERS.glob("*/ncu"), key=_release, reverse=True)
    return next(filter(None, map(_executable, (*(home / "bin" / "ncu" for home in homes), *folders))), None)


def _release(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", path.parent.name))


def _candidates(name: str, package: str) -> Iterator[Path]:
    home = cuda_home()
    on_path = shutil.which(name)
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    places = (
        *([home / "bin" / name] if home else []),
        *([Path(on_path)] if on_path else []),
        *(Path(str(file.locate())) for file in files if file.name == name),
        CUDA_FOLDER / "bin" / name,
    )
    return filter(None, map(_executable, places))


def cuda_home() -> Path | None:
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    return Path(named) if named else None


def _executable(path: Path) -> Path | None:
    return path if path.is_file() and os.access(path, os.X_OK) else None


def _tool(path: Path | None) -> Tool | None:
    if path is None:
        return None
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=ANSWER_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bV([0-9]+\.[0-9]+\.[0-9]+)", said)
    return Tool(path, match[1] if match else "unknown")


def findings() -> Iterator[tuple[str, bool, bool, str, str]]:
    """For the doctor: name, whether it is there, whether it is needed, what was found, what to do."""
    tool = find().cuobjdump
    found = f"{tool.version}, {tool.path}" if tool else "not in a toolkit, nor from PyPI"
    advice = f"pip install 'tilebench[{DISASSEMBLER_EXTRA}]' (make build does): builds then count instructions too"
    yield "cuobjdump", tool is not None, False, found, advice
