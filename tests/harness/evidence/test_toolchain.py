"""The toolchain is found where TileLang looks for it, and what is missing has a name to install."""

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.doctor import tools
from harness.errors import InfrastructureError
from harness.evidence import toolchain
from harness.evidence.toolchain import Tool, Toolchain
from harness.machine.hints import pip_install_here

NVCC = Tool(Path("nvcc"), "13.0.88")
PATH = os.environ["PATH"]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with nothing on it: no PATH, no toolkit, no packages."""
    for name in ("CUDA_HOME", "CUDA_PATH", "CXX", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(toolchain, "CUDA_FOLDER", tmp_path / "cuda")
    monkeypatch.setattr(importlib.metadata, "files", lambda _: None)
    toolchain.find.cache_clear()
    yield tmp_path
    toolchain.find.cache_clear()


def tool(path: Path, version: str = "V13.0.88") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\nprint('Cuda compilation tools, release 13.0, {version}')\n")
    path.chmod(0o755)
    return path


def test_an_empty_machine_lacks_everything_and_says_what_to_do() -> None:
    found = toolchain.find()
    assert found == Toolchain(None, None, None)
    assert found.missing_extra == "build"
    with pytest.raises(InfrastructureError, match=r"no nvcc .*`make build` adds it"):
        found.require(cpu=False)
    (finding,) = tools.cuobjdump([])
    assert (finding.name, finding.ok, finding.needed) == ("cuobjdump", False, False)
    assert finding.found
    assert pip_install_here("sass") in finding.advice


def test_nvcc_on_the_path_comes_before_the_usual_folder(machine: Path) -> None:
    tool(machine / "cuda/bin/nvcc", "V12.4.1")
    assert toolchain.find().nvcc == Tool(machine / "cuda/bin/nvcc", "12.4.1")
    toolchain.find.cache_clear()
    tool(machine / "bin/nvcc")
    assert toolchain.find().nvcc == Tool(machine / "bin/nvcc", "13.0.88")


def test_cuda_home_alone_counts_for_nvcc(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(machine / "bin/nvcc")
    tool(machine / "bin/cuobjdump", "V13.5.37")
    monkeypatch.setenv("CUDA_HOME", str(machine / "home"))
    found = toolchain.find()
    assert found.nvcc is None  # TileLang takes no other either
    assert found.cuobjdump == Tool(machine / "bin/cuobjdump", "13.5.37")


def test_a_toolkit_without_a_disassembler_needs_that_alone() -> None:
    assert Toolchain(NVCC, None, "g++").missing_extra == "sass"
    assert Toolchain(NVCC, NVCC, "g++").missing_extra is None


@pytest.mark.parametrize("cpu", [False, True])
def test_without_a_compiler_for_the_host_nothing_compiles(cpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", PATH)
    with pytest.raises(InfrastructureError, match=r"install g\+\+"):
        Toolchain(NVCC, NVCC, None).require(cpu=cpu)
    Toolchain(NVCC, None, "g++").require(cpu=cpu)
    Toolchain(None, None, "g++").require(cpu=True)


def test_a_compiler_without_a_linker_is_the_machines_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", PATH)
    linker = tmp_path / "ld"
    linker.write_text("#!/bin/sh\necho 'collect2: fatal error: cannot find ld' >&2\nexit 1\n")
    linker.chmod(0o755)
    with pytest.raises(InfrastructureError, match=r"cannot find ld; .*apt-get install binutils"):
        Toolchain(None, None, f"g++ -B{tmp_path}/").require(cpu=True)


def test_a_tool_that_does_not_answer_is_none(machine: Path) -> None:
    broken = machine / "bin/nvcc"
    broken.parent.mkdir()
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    assert shutil.which("nvcc") is not None
    assert toolchain.find().nvcc is None
