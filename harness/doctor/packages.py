"""Python and its packages, compared with the pins."""

import importlib.metadata
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from harness.catalog import gpus
from harness.catalog.opponents import Opponents
from harness.catalog.tree import Tree
from harness.doctor.finding import HealthFinding
from harness.judge.facts.gpu import CPU
from harness.machine.hints import DISTRIBUTION, pip_install
from harness.machine.nvml import Device
from harness.machine.repository import SHIPPED

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PROJECT: Final = SHIPPED / "pyproject.toml"
LOCKS: Final = ("requirements.lock", "requirements-cuda.lock")


class Project(msgspec.Struct, frozen=True, rename="kebab"):
    """The environment by pyproject.toml."""

    dependencies: list[str] = []
    requires_python: str = ">=3.11"


class ProjectFile(msgspec.Struct, frozen=True):
    project: Project


def python(_: list[Device]) -> Iterable[HealthFinding]:
    from packaging.specifiers import SpecifierSet  # here, because the doctor must start without packages

    needed = _requires_python()
    found = platform.python_version()
    ok = SpecifierSet(needed).contains(found, prereleases=True)
    yield HealthFinding("Python", ok, True, found, f"install Python {needed} and set the environment up again")


def pinned(_: list[Device]) -> Iterable[HealthFinding]:
    pins = _requirements()
    if not pins:
        yield HealthFinding("pinned packages", False, True, "no pins found", "run from a checkout with pyproject.toml")
    for pin in pins:
        if pin.marker is not None and not pin.marker.evaluate({"extra": ""}):
            continue
        remedy = f"install the pinned version: {pip_install(f'{pin.name}{pin.specifier}')}"
        try:
            found = importlib.metadata.version(pin.name)
        except importlib.metadata.PackageNotFoundError:
            yield HealthFinding(pin.name, False, True, "not installed", remedy)
            continue
        ok = pin.specifier.contains(found, prereleases=True)
        yield HealthFinding(pin.name, ok, True, found if ok else f"{found}, not {pin.specifier}", remedy)


def locked(_: list[Device]) -> Iterable[HealthFinding]:
    """All installed packages that the locks pin, not only those that the project names."""
    pins = [line.split()[0].partition("==") for lock in LOCKS for line in _lines(SHIPPED / lock)]
    installed, other = 0, []
    for name, _equal, pin in pins:
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        installed += 1
        if found.partition("+")[0] != pin:
            other.append(f"{name} {found}, not {pin}")
    if not pins:
        found, remedy = f"no {' and '.join(LOCKS)} here", "run from a checkout"
    else:
        found, remedy = f"{installed} of the {len(pins)} that are pinned", "make clean; or in the container, make image"
    yield HealthFinding("locked packages", bool(pins) and not other, False, "; ".join(other) or found, remedy)


def opponents(present: list[Device]) -> Iterable[HealthFinding]:
    """The packages of the opponents that this machine's GPU, or its CPU, can run."""
    gpu = gpus.find((gpus.key_of(present[0].name) if present else None) or CPU)
    for each in Opponents.of(Tree.here().root).members:
        if gpu.arch in each.architectures:
            missing = each.missing
            found = missing.partition(";")[0] if missing else ", ".join(each.requires) or "needs no package"
            yield HealthFinding(f"opponent {each.name}", missing is None, False, found, each.remedy)


def _lines(lock: Path) -> list[str]:
    try:
        return [line for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line and line[0] != "#"]
    except FileNotFoundError:
        return []


def _requirements() -> "list[Requirement]":
    """The pins of the installed distribution, or else of the checkout."""
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
