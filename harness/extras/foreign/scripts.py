"""The scripts of a foreign tree, each with its problem and the hash of the tree's own code that it runs."""

import ast
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.catalog.names import loose_number
from harness.catalog.tree import Selection
from harness.errors import UsageError, encodable
from harness.extras.foreign.guess import guessed
from harness.extras.foreign.reading import Reading
from harness.judge.facts.hashes import source_sha256
from harness.judge.facts.import_reader import imports
from harness.judge.facts.problem import Problem, parse_shape_key

PASSED_OVER: Final = frozenset({"__pycache__", "site-packages", "node_modules"})
_KERNELBENCH_PROBLEM: Final = re.compile(r"([0-9]+)_")  # level1/1_Square_matrix_multiplication_.py
_KERNELBENCH_ANSWER: Final = re.compile(r"problem_?([0-9]+)(?![0-9])")  # level_1_problem_1_sample_0_kernel.py
_ONLY_GPU: Final = re.compile(r"\balloc_shared\b|\balloc_fragment\b|\bT\.gemm\b|\.cuda\b|[\"']cuda\b")


@dataclass(frozen=True, slots=True)
class ForeignScript:
    """One script, in a ladder ``…/srcs/<shape_key>/<model>/iter<NNN>*.py`` or anywhere else.

    ``problem`` is None where a ladder's folder names no problem of ours; ``unknown`` then says why. Outside a ladder
    the problem is guessed, ``model`` is the folder, and ``number`` is 0 where the name has none. ``for_gpu`` is the
    first line that only a GPU runs, 0 if there is none. ``sha256`` is the hash of the script, ``sources_sha256`` also
    of the modules that it imports from its own folder or the tree's root.
    """

    path: Path
    shape_key: str
    model: str
    number: int
    problem: Problem | None
    unknown: str | None
    for_gpu: int
    sha256: str
    sources_sha256: str

    @property
    def name(self) -> str:
        return encodable(self.path.stem)

    @property
    def operator(self) -> str:
        return self.problem.operator if self.problem is not None else ""

    @property
    def results(self) -> tuple[Path, ...]:
        """Where a ladder keeps its figures of this problem and model."""
        return tuple(figures_of(self.path.parent, part) for part in ("perf", "logs") if is_in_ladder(self.path))

    def __str__(self) -> str:
        return f"{self.shape_key} {self.model} {self.name}"


def is_in_ladder(path: Path) -> bool:
    """Whether a script lies in ``srcs/<shape_key>/<model>/``, so that its figures rank beside those of others."""
    return len(path.absolute().parents) > 2 and path.absolute().parents[2].name == "srcs"


def python_files(path: Path) -> list[Path]:
    """A file, or all Python below a folder, but no hidden folders, caches and installed packages."""
    if path.is_file():
        return [path]
    found = ((each, each.relative_to(path).parts) for each in sorted(path.rglob("*.py")))
    own = (each for each, parts in found if PASSED_OVER.isdisjoint(parts) and not any(p.startswith(".") for p in parts))
    return [each for each in own if each.is_file()]


def figures_of(folder: Path, part: str) -> Path:
    """The folder with ``part``, such as perf or logs, of the scripts in a folder."""
    return folder.parents[2] / part / folder.parent.name / folder.name


def scripts(root: Path, selection: Selection) -> tuple[list[ForeignScript], list[Path]]:
    """The selected scripts of a file or folder in ladder order, and TileLang's files of no known problem.

    Raises UsageError where there is no script.
    """
    root = root.resolve()
    paths = python_files(root)
    sources = {path: parsed(path) for path in paths if not is_in_ladder(path)}
    loose = _Loose(sources, selection.shape, one=root.is_file())
    known = {path: _script(path, root, loose) for path in paths}
    found = [each for each in known.values() if each is not None]
    taken = selection.taken(found)
    if not taken:
        problems = f" ({len(loose.problems)} problems of KernelBench are ours)" if loose.problems else ""
        broken = f"; not Python: {', '.join(str(path.relative_to(root.parent)) for path in loose.broken)}"
        raise UsageError(
            f"{root} holds no scripts that were asked for{problems}: neither srcs/<shape_key>/<model>/iter<NNN>*.py "
            "nor a TileLang kernel with tensors that tell its problem; --shape names the problem of others"
            f"{broken if loose.broken else ''}"
        )
    left = [path for path, each in known.items() if each is None and loose.is_of_tilelang(path)]
    return sorted(taken, key=lambda each: (each.shape_key, each.model, each.number, each.name)), left


def _script(path: Path, root: Path, loose: "_Loose") -> ForeignScript | None:
    """The script of a path; None for one that holds no kernel, or outside a ladder none of a known problem."""
    folder = root if root.is_dir() else root.parent
    if is_in_ladder(path):
        number = loose_number(path.name)
        if number is None or not path.name.startswith("iter"):
            return None
        shape_key, model = path.parent.parent.name, path.parent.name
        problem, unknown = problem_of(shape_key)
    else:
        known = loose.problem(path)
        if known is None:
            return None
        number, problem, unknown, shape_key = loose_number(path.name) or 0, known, None, known.shape_key
        model = re.sub("[^a-z0-9.-]+", "-", "-".join(path.relative_to(folder).parts[:-1] or (folder.name,)).lower())
    read = _for_gpu(path), source_sha256(path), sources_sha256(path, folder)
    return ForeignScript(path, encodable(shape_key), encodable(model), number, problem, unknown, *read)


class _Loose:
    """The scripts outside ladders, by path, and the problems of KernelBench among them, by number.

    Of ``one`` script alone the caller's word counts before the guess.
    """

    def __init__(self, sources: dict[Path, ast.Module | None], shape: str | None, *, one: bool) -> None:
        self._one = one
        self._named = None if shape is None else problem_of(shape)[0]
        self._kernels = {path: module for path, module in sources.items() if module and imports_tilelang(module)}
        self.broken = {path for path, module in sources.items() if module is None and b"tilelang" in path.read_bytes()}
        statements = {path: module for path, module in sources.items() if module and path not in self._kernels}
        named = ((_KERNELBENCH_PROBLEM.match(path.name), module) for path, module in statements.items())
        told = ((match[1], guessed(Reading(module))) for match, module in named if match and _has_model(module))
        self.problems = {number: problem for number, problem in told if problem is not None}

    def is_of_tilelang(self, path: Path) -> bool:
        return path in self._kernels or path in self.broken

    def problem(self, path: Path) -> Problem | None:
        """By the tensors of a script, by the problem that its name tells, or as the caller names it."""
        if path not in self._kernels:
            return self._named if path in self.broken else None
        match = _KERNELBENCH_ANSWER.search(path.name)
        told = self.problems.get(match[1]) if match else None
        said = self._named if self._one else None
        return said or guessed(Reading(self._kernels[path])) or told or self._named


def parsed(path: Path) -> ast.Module | None:
    """None where a file is no Python that can be read."""
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        return None


def imports_tilelang(module: ast.Module) -> bool:
    return any(each.module[:1] == ("tilelang",) for each in imports(module))


def _has_model(module: ast.Module) -> bool:
    return any(isinstance(node, ast.ClassDef) and node.name == "Model" for node in module.body)


def _for_gpu(path: Path) -> int:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((number for number, line in enumerate(lines, start=1) if _ONLY_GPU.search(line)), 0)


def problem_of(shape_key: str) -> tuple[Problem | None, str | None]:
    """The problem that a folder of a foreign tree names; None and the reason where it names none."""
    try:
        return parse_shape_key(shape_key), None
    except UsageError as error:
        return None, str(error)


def sources_sha256(script: Path, root: Path) -> str:
    """Hash of a script and of all modules of its tree that it imports."""
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
    module = parsed(path)
    names = [each.full for each in imports(module) if not each.relative] if module is not None else []
    return [".".join(name.split(".")[:depth]) for name in names for depth in range(1, name.count(".") + 2)]
