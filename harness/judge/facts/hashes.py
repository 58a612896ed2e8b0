"""The hashes that tell whether a result is stale: of an iteration, of its families, and of its judge.

An unused family or operator is in no hash, so adding one makes nothing stale.
"""

import ast
import hashlib
import io
import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import msgspec

from harness.judge.facts.gpu import Gpu
from harness.judge.facts.import_reader import Imported, imports, imports_of
from harness.machine import repository

FAMILIES: Final = "kernels"
JUDGE: Final = "harness/judge"
AMENDED: Final = f"{JUDGE}/amended.json"
OPERATORS: Final = "harness/operators"
BASELINES: Final = "baselines"

# Direct imports of a file -> the hash of all that they lead to; None where files may change.
_followed: Final[ContextVar[dict[tuple[Path, frozenset[Path]], str] | None]] = ContextVar("followed", default=None)
_STATEMENT_BEGINS: Final = (tokenize.ENCODING, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)  # after one of these
_INERT: Final = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def source_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def reading() -> Iterator[None]:
    """For its duration no file changes, so imports that hundreds of iterations share are followed once."""
    token = _followed.set({})
    try:
        yield
    finally:
        _followed.reset(token)


def families_sha256(root: Path, path: Path) -> str:
    """Hash of the modules that ``families`` names."""
    known = _followed.get()
    if known is None:
        return _digest(root, families(root, path))
    key = root, frozenset(each for package in _packages_of(root, path) for each in _imports(root, path, package))
    if key not in known:
        known[key] = _digest(root, families(root, path))
    return known[key]


def families(root: Path, path: Path) -> list[Path]:
    """The modules under kernels/ that a file imports, directly or through another.

    Of an opponent's file: the modules under baselines/ and harness/operators/.
    """
    return sorted(set().union(*(_closure(root, path, package) for package in _packages_of(root, path))))


def _packages_of(root: Path, path: Path) -> tuple[str, ...]:
    opposes = any(path.is_relative_to(folder) for folder in repository.folders(root, BASELINES))
    return (BASELINES, OPERATORS) if opposes else (FAMILIES,)


class Amendment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of the judge that leaves passed rows as they are: it would pass them too, with the same figures.

    For each operator and GPU, ``same`` leads from the hash of the judge as it is to that of the judge at ``commit``. A
    later change has another hash, so the amendment does not speak for it. ``earlier`` does the same for judges between
    the two that records have. ``widened`` says of an operator since when its limits are wider: what was wrong before
    may be right.
    """

    commit: str
    why: str
    same: dict[str, str]
    widened: dict[str, str] = {}
    earlier: dict[str, str] = {}

    def kept(self, sha256: str) -> str:
        """The hash that a record's judge keeps; its own where it was never amended."""
        return self.same.get(sha256) or self.earlier.get(sha256, sha256)


@cache
def judge_sha256(root: Path, operator: str, gpu: Gpu) -> str:
    """Hash of all that decides a verdict or a figure of an operator's problems on one GPU key.

    It covers the code of the judge's folder, the GPU's row without the pattern of its name, and the operator. It also
    covers the baseline and how that is called. An amended judge keeps the hash that it had before.
    """
    own = judge_as_it_is(root, operator, gpu)
    return amendment(root).same.get(own, own)


def widened_at(root: Path, operator: str) -> str:
    """When an operator's limits became wider, as a record gives times; empty if they did not."""
    return amendment(root).widened.get(operator, "")


@cache
def amendment(root: Path) -> Amendment:
    """The amendment of the judge, which may be an empty one."""
    file = repository.code(root) / AMENDED
    return msgspec.json.decode(file.read_bytes(), type=Amendment) if file.is_file() else Amendment("", "", {})


def judge_as_it_is(root: Path, operator: str, gpu: Gpu) -> str:
    """The same hash, whatever was amended."""
    code = repository.code(root)
    files = {*(code / JUDGE).rglob("*.py"), *(code / BASELINES).glob("interface.py")}
    named = [f"{path}.py" for path in repository.places(root, (*OPERATORS.split("/"), operator))]
    for module in (*map(Path, named), baseline_module(root, operator)):
        if module is not None and module.is_file():
            files |= {module, *_closure(root, module, OPERATORS), *_closure(root, module, BASELINES)}
    row = msgspec.json.encode(msgspec.structs.replace(gpu, name=None))
    return hashlib.sha256(_digest(root, sorted(files), _code).encode() + row).hexdigest()


def baseline_module(root: Path, operator: str) -> Path | None:
    """The module with an operator's baseline; None if there is none."""
    return next(iter(baseline_modules(root, operator)), None)


def baseline_modules(root: Path, operator: str) -> list[Path]:
    """The modules with a function of the operator's name; there should be one."""
    return [path for folder in repository.folders(root, BASELINES) for path in _defining(folder, operator)]


def baseline_name(module: Path) -> str:
    """The baseline's name, from its module's: ``torch_matmul`` stands for ``torch.matmul``."""
    return module.stem.replace("_", ".", 1)


def _defining(package: Path, name: str) -> list[Path]:
    """The modules of a package that define a function of this name at their top."""
    return [
        path
        for path in sorted(package.glob("*.py"))
        if any(isinstance(node, ast.FunctionDef) and node.name == name for node in _parsed(path).body)
    ]


def _closure(root: Path, path: Path, package: str) -> set[Path]:
    """The modules of a package that a file imports, directly or through another of them."""
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        for module in _imports(root, waiting.pop(), package):
            if module not in seen:
                seen.add(module)
                waiting.append(module)
    return seen


def _imports(root: Path, path: Path, package: str) -> Iterator[Path]:
    place = repository.package_of(root, path)
    for each in _imported(_read(path), place):
        if each.module[: package.count("/") + 1] == tuple(package.split("/")):
            if package == FAMILIES:  # other packages' __init__ files only register modules
                yield from _packages(root, each.module)
            yield from _resolved(root, each.module, each.name)


@lru_cache(maxsize=1024)
def _imported(source: bytes, place: tuple[str, ...] | None) -> tuple[Imported, ...]:
    """The imports of a module; ``place`` is the package for relative imports, None outside the checkout."""
    return tuple(each for each in imports(_parse(source), place or ()) if place is not None or not each.relative)


def _packages(root: Path, module: tuple[str, ...]) -> Iterator[Path]:
    """The ``__init__`` files on the way that do more than define, import and name constants."""
    for depth in range(1, len(module) + 1):
        for init in {path / "__init__.py" for path in repository.places(root, module[:depth])}:
            if init.is_file() and not _is_inert(_parsed(init)):
                yield init


def _resolved(root: Path, module: tuple[str, ...], name: str | None, via: frozenset[Path] = frozenset()) -> list[Path]:
    """The files that define a name, most often one; a package that only re-exports it is skipped."""
    return next(filter(None, (_found(root, path, module, name, via) for path in repository.places(root, module))), [])


def _found(root: Path, path: Path, module: tuple[str, ...], name: str | None, via: frozenset[Path]) -> list[Path]:
    """The same where the module lies at ``path``, without its suffix; none if it does not."""
    if path.with_suffix(".py").is_file():
        return [path.with_suffix(".py")]
    init = path / "__init__.py"
    if init in via:
        return []
    if not init.is_file():  # a folder without it is a package too
        return _resolved(root, (*module, name), None, via) if name and path.is_dir() else []
    if name is None or name == "*":
        return [init]
    for node in _parsed(init).body:  # like Python, look at the package's own names before its modules
        if isinstance(node, ast.ImportFrom):
            for each in imports_of(node, module):
                found = _resolved(root, each.module, each.name, via | {init}) if each.bound == name else []
                if found:
                    return found
    return _resolved(root, (*module, name), None) or [init]


def _is_inert(tree: ast.Module) -> bool:
    """Whether running a module only defines, imports, and names constants."""
    return all(
        isinstance(node, _INERT)
        or (isinstance(node, ast.Expr | ast.AnnAssign) and is_literal(node.value))
        or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and is_literal(node.value))
        or (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
        for node in tree.body
    )


def is_literal(node: ast.expr | None) -> bool:
    try:
        ast.literal_eval(node or ast.Constant(None))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _parsed(path: Path) -> ast.Module:
    return _parse(_read(path))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@lru_cache(maxsize=1024)  # one family is imported by hundreds of iterations
def _parse(source: bytes) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _digest(root: Path, files: list[Path], read: Callable[[Path], bytes] = Path.read_bytes) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = read(file)
        digest.update(f"{repository.short(root, file)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _code(path: Path) -> bytes:
    """A module's text without comments, docstrings and empty lines, which decide nothing."""
    return _without_prose(path.read_bytes())


@lru_cache(maxsize=1024)
def _without_prose(source: bytes) -> bytes:
    """Cut from the text, since tokens are not the same in every Python."""
    try:
        tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return source
    told = [each for each in tokens if each.type not in (tokenize.COMMENT, tokenize.NL)]
    docstrings = {
        each
        for before, each, after in zip(told, told[1:], told[2:], strict=False)
        if each.type == tokenize.STRING and before.type in _STATEMENT_BEGINS and after.type == tokenize.NEWLINE
    }
    lines = source.decode("utf-8-sig").split("\n")
    for token in reversed(tokens):
        (first, start), (last, end) = token.start, token.end
        if token.type == tokenize.COMMENT or token in docstrings:
            rest = lines[first - 1][:start].rstrip() + lines[last - 1][end:]
            lines[first - 1 : last] = [rest] if rest.strip() else []
        elif token.type == tokenize.NL and not lines[first - 1].strip():
            del lines[first - 1]
    return "\n".join(lines).encode()
