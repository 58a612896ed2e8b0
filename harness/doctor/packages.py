"""Python and its packages, compared with the pins."""

import importlib.metadata
import platform
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.catalog import gpus
from harness.catalog.opponents import Opponents
from harness.catalog.tree import Tree
from harness.doctor.finding import HealthFinding
from harness.judge.facts.gpu import CPU
from harness.machine.hints import DISTRIBUTION, installed, pip_install
from harness.machine.nvml import Device
from harness.machine.repository import SHIPPED

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PROJECT: Final = SHIPPED / "pyproject.toml"
LOCKS: Final = ("requirements.lock", "requirements-cuda.lock")


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
        found = installed(pin.name)
        ok = found is not None and pin.specifier.contains(found, prereleases=True)
        told = f"{found}, not {pin.specifier}" if found else "not installed"
        yield HealthFinding(pin.name, ok, True, found if ok and found else told, remedy)


def locked(_: list[Device]) -> Iterable[HealthFinding]:
    """All installed packages that the locks pin, not only those that the project names."""
    pins = [line.split()[0].partition("==") for lock in LOCKS for line in _lines(SHIPPED / lock)]
    present = [(name, found, pin) for name, _, pin in pins if (found := installed(name)) is not None]
    other = [f"{name} {found}, not {pin}" for name, found, pin in present if found.partition("+")[0] != pin]
    if not pins:
        found, remedy = f"no {' and '.join(LOCKS)} here", "run from a checkout"
    else:
        found = f"{len(present)} of the {len(pins)} that are pinned"
        remedy = "make clean; or in the container, make image"
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
        lines = _project().get("dependencies", [])
    pins = [Requirement(line) for line in lines]
    return sorted((pin for pin in pins if pin.specifier), key=lambda pin: pin.name.lower())


def _requires_python() -> str:
    try:
        return str(importlib.metadata.metadata(DISTRIBUTION).json["requires_python"])
    except (importlib.metadata.PackageNotFoundError, KeyError):
        return str(_project().get("requires-python", ">=3.11"))


def _project() -> dict[str, Any]:
    """What pyproject.toml says of the project; nothing where it is missing."""
    return tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"] if PROJECT.is_file() else {}
