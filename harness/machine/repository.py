"""A repository: records and kernels, and beside the shipped code its own operators, baselines and families.

Python finds a repository's own modules inside the shipped packages, by the names that shipped ones have.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from harness.errors import UsageError, unreadable

SHIPPED: Final = Path(__file__).resolve().parents[2]  # holds the package that runs
SETTINGS: Final = "tilebench.toml"
# Shipped package -> the repository's folder with more of its modules.
OWN: Final = {"harness.operators": "operators", "baselines": "baselines", "kernels": "kernels"}
READ_BY_PATH: Final = ("opponents",)  # folders that may be in both
# What a scratch copy of a repository takes over; a repository other than tilebench's own has no harness.
PARTS: Final = ("harness", "kernels", "baselines", "operators", SETTINGS)


def here() -> Path:
    """``TILEBENCH_ROOT``, or the repository that holds the working directory, or tilebench's own checkout.

    Raises UsageError outside a repository where tilebench is installed without its checkout, and for a root that is no
    folder.
    """
    if named := os.environ.get("TILEBENCH_ROOT"):
        if not Path(named).is_dir():
            raise UsageError(f"TILEBENCH_ROOT is {named}, which is no folder")
        return Path(named).resolve()
    working = Path.cwd()
    marked = next((folder for folder in (working, *working.parents) if (folder / SETTINGS).is_file()), None)
    if marked is not None:
        return marked
    if (working / "tuning").is_dir():
        return working
    if (SHIPPED / SETTINGS).is_file():
        return SHIPPED
    raise UsageError(f"{working} is in no repository with kernels; make one with: tilebench init")


def code(root: Path) -> Path:
    """The folder with the shipped packages: the repository itself if it has them, else where this one runs from."""
    return root if (root / "harness" / "judge").is_dir() else SHIPPED


def folders(root: Path, package: str) -> tuple[Path, ...]:
    """The folders with a package's modules, the shipped one first."""
    found = (code(root).joinpath(*package.split(".")), root / OWN[package])
    return tuple(each for each in dict.fromkeys(found) if each.is_dir())


def places(root: Path, module: Sequence[str]) -> Iterator[Path]:
    """Where a module of these packages may lie, without its suffix."""
    yield code(root).joinpath(*module)
    for package, folder in OWN.items():
        parts = package.split(".")
        if list(module[: len(parts)]) == parts:
            yield root.joinpath(folder, *module[len(parts) :])


def package_of(root: Path, path: Path) -> tuple[str, ...] | None:
    """The package that a file's relative imports start from; None outside the repository."""
    for package, folder in OWN.items():
        if path.parent.is_relative_to(root / folder):
            return (*package.split("."), *path.parent.relative_to(root / folder).parts)
    base = _base(root, path)
    return path.parent.relative_to(base).parts if base else None


def short(root: Path, path: Path) -> str:
    """A path from the repository, or from the shipped code."""
    base = _base(root, path)
    return str(path.relative_to(base) if base else path)


def _base(root: Path, path: Path) -> Path | None:
    """Where a path is counted from: one of the two may lie in the other, such as an environment in a repository."""
    holding = [each for each in (root, code(root)) if path.is_relative_to(each)]
    return max(holding, key=lambda each: len(each.parts), default=None)


def take_over(root: Path, to: Path, put: Callable[[Path, Path], object], without: str = "") -> None:
    """Put each part of a repository into a scratch copy, by a link or a copy."""
    for part in PARTS:
        if part != without and (root / part).exists():
            put(root / part, to / part)


def link(path: Path, to: Path) -> None:
    to.symlink_to(path, target_is_directory=path.is_dir())


def copy(path: Path, to: Path) -> None:
    """Copy a folder without what Python compiled of it, or a file."""
    if path.is_dir():
        shutil.copytree(path, to, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(path, to)


def own_modules(root: Path, package: str) -> list[str]:
    """The names of a repository's own modules in a package. Raises UsageError where a shipped module has the name."""
    own, shipped = root / OWN[package], code(root).joinpath(*package.split("."))
    if own == shipped or not own.is_dir():
        return []
    found = sorted(path for path in own.iterdir() if path.suffix == ".py" or (path.is_dir() and _is_package(path)))
    for path in found:
        if path.name == "__init__.py":
            raise UsageError(f"{path}: it would hide the shipped package '{package}'; delete it")
        if (shipped / path.name).exists() or (shipped / path.stem).is_dir() or (shipped / f"{path.stem}.py").exists():
            raise UsageError(f"{path}: {package}.{path.stem} is shipped already; choose another name")
    return [path.stem for path in found]


def described_at(path: Path, name: str) -> Any:
    """What a module sets under a name, read by its path alone. Raises UsageError if that fails."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return getattr(module, name)
    except Exception as error:  # it is a person's code
        raise UsageError(unreadable(path, error)) from None


def _is_package(folder: Path) -> bool:
    return folder.name.isidentifier() and not folder.name.startswith("__") and folder.name not in READ_BY_PATH


class OwnModules(MetaPathFinder):
    """Finds the adopted repository's modules, after Python has found none that is shipped."""

    def __init__(self) -> None:
        """Begin with the repository of the program, which may be an iteration, or of the working directory."""
        self.root = SHIPPED
        self._names: list[str] = []
        with suppress(UsageError, OSError):
            above = Path(sys.argv[0]).resolve().parents if sys.argv else ()
            self.root = next((folder for folder in above if (folder / SETTINGS).is_file()), None) or here()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = fullname.rpartition(".")[0]
        return PathFinder.find_spec(fullname, [str(self.root / OWN[package])]) if package in OWN else None

    def adopt(self, root: Path, names: Mapping[str, Sequence[str]]) -> None:
        """Find modules in this repository from now on, by package; those of the one before are forgotten."""
        forgotten = tuple(f"{name}." for name in self._names)
        for known in [each for each in sys.modules if f"{each}.".startswith(forgotten)]:
            del sys.modules[known]
        self.root = root
        self._names = [f"{package}.{name}" for package, found in names.items() for name in found]


class ShippedPackages(MetaPathFinder):
    """Finds the shipped packages first: an editable install would find the repository's folders of the same names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        places = [str(ADOPTED.root), str(SHIPPED)]
        return PathFinder.find_spec(fullname, places) if path is None and fullname in OWN else None


ADOPTED: Final = OwnModules()
sys.meta_path[:] = [ShippedPackages(), *sys.meta_path, ADOPTED]
