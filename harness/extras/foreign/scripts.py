"""The scripts of a foreign tree, each with its problem and the hash of the tree's own code that it runs."""

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path

from harness.catalog.names import loose_number
from harness.catalog.tree import Selection
from harness.errors import UsageError, encodable
from harness.judge.facts.hashes import source_sha256
from harness.judge.facts.import_reader import imports
from harness.judge.facts.problem import Problem, parse_shape_key


@dataclass(frozen=True, slots=True)
class ForeignScript:
    """One script ``…/srcs/<shape_key>/<model>/iter<NNN>*.py``.

    ``problem`` is None where the folder names no problem of ours; ``unknown`` then says why. ``sha256`` is the hash of
    the script, ``sources_sha256`` also of the modules that it imports from its own folder or the tree's root.
    """

    path: Path
    shape_key: str
    model: str
    number: int
    problem: Problem | None
    unknown: str | None
    sha256: str
    sources_sha256: str

    @property
    def name(self) -> str:
        return encodable(self.path.stem)

    @property
    def operator(self) -> str:
        return self.problem.operator if self.problem is not None else ""

    @property
    def results(self) -> tuple[Path, Path]:
        """Where the tree keeps its figures of this problem and model."""
        return figures_of(self.path.parent, "perf"), figures_of(self.path.parent, "logs")

    def __str__(self) -> str:
        return f"{self.shape_key} {self.model} {self.name}"


def is_in_ladder(path: Path) -> bool:
    """Whether a script lies in ``srcs/<shape_key>/<model>/``, so that its figures rank beside those of others."""
    return len(path.absolute().parents) > 2 and path.absolute().parents[2].name == "srcs"


def python_files(path: Path) -> list[Path]:
    """A file, or all Python below a folder, but no hidden folders, caches and installed packages."""
    if path.is_file():
        return [path]
    found = (each for each in sorted(path.rglob("*.py")) if not any(map(_is_passed_over, each.relative_to(path).parts)))
    return [each for each in found if each.is_file()]


def _is_passed_over(part: str) -> bool:
    return part.startswith(".") or part in ("__pycache__", "site-packages", "node_modules")


def figures_of(folder: Path, part: str) -> Path:
    """The folder with ``part``, such as perf or logs, of the scripts in a folder."""
    return folder.parents[2] / part / folder.parent.name / folder.name


def scripts(root: Path, selection: Selection) -> list[ForeignScript]:
    """The selected scripts of a tree in ladder order; raises UsageError where there is none."""
    present = []
    for path in sorted(root.resolve().rglob("srcs/*/*/iter*.py")):
        number = loose_number(path.name)
        if number is None or not path.is_file():
            continue
        shape_key, model = (encodable(folder.name) for folder in (path.parent.parent, path.parent))
        problem, unknown = problem_of(shape_key)
        hashes = source_sha256(path), _sources_sha256(path, root.resolve())
        present.append(ForeignScript(path, shape_key, model, number, problem, unknown, *hashes))
    found = selection.taken(present)
    if not found:
        raise UsageError(f"{root} holds no scripts srcs/<shape_key>/<model>/iter<NNN>*.py that were asked for")
    return sorted(found, key=lambda each: (each.shape_key, each.model, each.number, each.name))


def problem_of(shape_key: str) -> tuple[Problem | None, str | None]:
    """The problem that a folder of a foreign tree names; None and the reason where it names none."""
    try:
        return parse_shape_key(shape_key), None
    except UsageError as error:
        return None, str(error)


def _sources_sha256(script: Path, root: Path) -> str:
    digest = hashlib.sha256(source_sha256(script).encode())
    for path in _imported(script, root):
        digest.update(f"{path.name}\0{source_sha256(path)}".encode())
    return digest.hexdigest()


def _imported(script: Path, root: Path) -> list[Path]:
    """The tree's own modules that a script imports, directly or not."""
    seen: dict[Path, None] = {script: None}
    waiting = [script]
    while waiting:
        for name in _names(waiting.pop()):
            places = (folder.joinpath(*name.split(".")) for folder in (script.parent, root))
            files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
            for file in files:
                if file not in seen and file.is_file():
                    seen[file] = None
                    waiting.append(file)
    return sorted(set(seen) - {script})


def _names(path: Path) -> list[str]:
    """Dotted names that may be modules of the tree: every import, and every package that it names."""
    try:
        module = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        return []
    names = [each.full for each in imports(module) if not each.relative]
    return [".".join(name.split(".")[:depth]) for name in names for depth in range(1, name.count(".") + 2)]
