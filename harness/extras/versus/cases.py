"""Benchmarks of trees made elsewhere, as rows of versus: TileLang's ``regression_*.py`` and TileOPs' ``bench_*.py``."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import UsageError

CALLED: Final = {"regression_": "regression_", "bench_": "test_"}  # a file's prefix, and that of its functions


@dataclass(frozen=True)
class BenchmarkCase:
    """One function of a file, which compiles what it times. Its row has the file in the problem's place."""

    root: Path
    path: Path
    name: str

    @property
    def shape_key(self) -> str:
        return str(self.path.relative_to(self.root).with_suffix(""))

    @property
    def model(self) -> str:
        return self.root.name

    def __str__(self) -> str:
        return f"{self.shape_key}/{self.name}"


def cases(place: Path) -> tuple[list[BenchmarkCase], list[str]]:
    """The cases in a file, or in a folder's files, and a line for each file that is no Python. Raises UsageError."""
    place = place.resolve()
    files = [place] if place.is_file() else sorted(each for name in CALLED for each in place.rglob(f"{name}*.py"))
    found, unreadable = list[BenchmarkCase](), list[str]()
    for path in files:
        try:
            found += [BenchmarkCase(_root(place), path, name) for name in _functions(path)]
        except (SyntaxError, ValueError, OSError) as error:
            unreadable.append(f"{path} cannot be read: {error}")
    if not found:
        names = " or ".join(f"{file}*.py with a function {function}*" for file, function in CALLED.items())
        raise UsageError(f"{place} has no {names}")
    return found, unreadable


def _functions(path: Path) -> Iterator[str]:
    prefix = next((called for name, called in CALLED.items() if path.name.startswith(name)), "\0")
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith(prefix):
            yield node.name


def _root(place: Path) -> Path:
    """The tree's own folder, from which its files import: that of its pyproject.toml, else what was named."""
    above = [place, *place.parents] if place.is_dir() else list(place.parents)
    return next((each for each in above if (each / "pyproject.toml").is_file()), above[0])
