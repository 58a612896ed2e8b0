"""The tools of a build and of a profile: nvcc, cuobjdump and ncu, from a toolkit or from PyPI."""

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import InfrastructureError, compiler_complaint, described, last_line
from harness.machine.hints import adds

CUDA_FOLDER: Final = Path("/usr/local/cuda")
NSIGHT_FOLDERS: Final = Path("/opt/nvidia/nsight-compute")
HOST_COMPILERS: Final = ("g++", "clang++", "c++")  # TileLang's own choice, in its order
ANSWER_S: Final = 60.0
UNKNOWN: Final = "unknown"  # of a program that does not tell its version as expected
MISSING_PROGRAM: Final = re.compile("cannot (find|execute)|unable to execute|not found|No such file|doesn't exist")
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
    """The tools found. nvcc compiles for a GPU; cuobjdump counts instructions."""

    nvcc: Tool | None
    cuobjdump: Tool | None
    host_compiler: str | None

    def require(self, *, cpu: bool) -> None:
        """Raise InfrastructureError if no kernel can compile here."""
        if not cpu and self.nvcc is None:
            raise InfrastructureError(
                f"no nvcc on PATH, in CUDA_HOME or from PyPI, so nothing compiles for a GPU; {adds('build', EXTRA)}"
            )
        if self.host_compiler is None:
            raise InfrastructureError(
                "there is no C++ compiler, which kernels for a CPU need, and nvcc too; "
                "install g++ (apt-get install g++), or set CXX"
            )
        if cpu and (complaint := unlinked(self.host_compiler)):
            raise InfrastructureError(
                f"{self.host_compiler} makes no library: {complaint}; it needs an assembler and a linker "
                "(apt-get install binutils)"
            )

    @property
    def missing_extra(self) -> str | None:
        """The project's extra that installs the missing tools; None if there are none."""
        if self.nvcc is None:
            return EXTRA
        return DISASSEMBLER_EXTRA if self.cuobjdump is None else None


@cache
def find() -> Toolchain:
    """This machine's toolchain: TileLang's nvcc, and any cuobjdump."""
    return Toolchain(
        nvcc=tool(nvcc_path()), cuobjdump=cuobjdump(), host_compiler=named_compiler() or compiler_on_path()
    )


@cache
def unlinked(compiler: str) -> str | None:
    """What a C++ compiler says where it finds no assembler or linker for a library of nothing; None where it does."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*shlex.split(compiler), "-shared", "-x", "c++", "-", "-o", f"{folder}/nothing.so"]
        try:
            done = subprocess.run(command, input="", capture_output=True, text=True, timeout=ANSWER_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            return described(error)
    said = compiler_complaint(done.stderr) or last_line(done.stderr)
    return said if done.returncode and MISSING_PROGRAM.search(said) else None  # a full disk is told by what needs it


def named_compiler() -> str | None:
    """The C++ compiler that the environment names; TileLang takes it first."""
    return os.environ.get("CXX") or os.environ.get("CC")


def compiler_on_path() -> str | None:
    """The first of TileLang's own C++ compilers on PATH."""
    return next(filter(None, map(shutil.which, HOST_COMPILERS)), None)


def nvcc_path() -> Path | None:
    """nvcc in TileLang's order: only CUDA_HOME if that is set, or else PATH, PyPI, the usual folder."""
    home = cuda_home()
    if home is not None:
        return _executable(home / "bin" / "nvcc")
    return next(_candidates("nvcc", "nvidia-cuda-nvcc"), None)


def cuobjdump(answer_s: float = ANSWER_S) -> Tool | None:
    """Any cuobjdump that tells its version in time."""
    return tool(next(_candidates("cuobjdump", "nvidia-cuda-cuobjdump"), None), answer_s)


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


def tool(path: Path | None, answer_s: float = ANSWER_S, version: str = r"\bV([0-9]+\.[0-9]+\.[0-9]+)") -> Tool | None:
    """A program that tells its version, as the pattern finds it; None where it does not answer."""
    if path is None:
        return None
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=answer_s, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(version, said)
    return Tool(path, match[1] if match else UNKNOWN)
