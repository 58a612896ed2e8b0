"""Places: the line of an iteration, or of its family, that a failure is about."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from harness.errors import printable
from harness.judge.facts.hashes import FAMILIES, families
from harness.machine.repository import folders, short

MOST_BYTES: Final = 1 << 20  # of a source that is read
LONGEST_LINE: Final = 100  # characters of a source line that are shown
NAMED: Final = re.compile(r"\.py:\d+")  # a reason that names a place
_STACKED: Final = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)
_QUOTED: Final = re.compile(r"[\u2018'\"`]([^\u2018\u2019'\"`]{1,80})[\u2019'\"`]|undefined symbol: (\S+)")

Frame = tuple[str, int]  # a file and a line


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One line of a file. It reads ``iter001_idea.py:14: return total``, a family by its path in the checkout."""

    path: Path
    line: int
    root: Path

    def __str__(self) -> str:
        name = short(self.root, self.path) if _in_family(self.root, self.path) else self.path.name
        source = printable(self.source, LONGEST_LINE)
        return f"{name}:{self.line}: {source}" if source else f"{name}:{self.line}"

    @property
    def source(self) -> str:
        return next(islice(_text(self.path).split("\n"), self.line - 1, None), "").strip()


@dataclass(frozen=True, slots=True)
class UserCode:
    """The code that its author can mend: the iteration at ``own``, and the families under ``root``."""

    own: Path
    root: Path

    def at(self, line: int, reason: str) -> str:
        """The reason, and a line of the file itself; 0 stands for the whole file."""
        return self.located(reason, [(str(self.own), max(1, line))])

    def located(self, reason: str, frames: Iterable[Frame], words: Iterable[str] = ()) -> str:
        """The reason, and where: the lowest frame of the iteration, and a lower one of a family that does not refuse.

        ``frames`` are outermost first. ``words`` are names in a compiler's complaint: the first line that holds one
        of them lies below all frames.
        """
        found = [CodeLine(path, line, self.root) for path, line in map(_frame, frames) if self._holds(path)]
        if (named := self._naming(words)) is not None:
            found.append(named)
        own = next((each for each in reversed(found) if each.path == self.own), None) or self.result()
        lower = found[-1] if found and found[-1].path != self.own else None
        below = f"; in {lower}" if lower and not lower.source.startswith("raise ") else ""
        return f"{reason.rstrip('.: ')}, at {own}{below}"

    def result(self) -> CodeLine:
        """The function that ``build`` returns, else what it returns; without it a prim_func, else the first line."""
        module = parsed(self.own)
        functions = {each.name: each for each in ast.walk(module) if isinstance(each, ast.FunctionDef)}
        build = functions.get("build")
        returned = [each for each in _own_statements(build) if isinstance(each, ast.Return)] if build else []
        line = build.lineno if build else next((each.lineno for each in functions.values() if _is_kernel(each)), 1)
        if returned:
            value = returned[-1].value
            kernel = functions.get(value.id) if isinstance(value, ast.Name) else None
            line = (kernel or returned[-1]).lineno
        return CodeLine(self.own, line, self.root)

    def _holds(self, path: Path) -> bool:
        return path == self.own or _in_family(self.root, path)

    def _naming(self, words: Iterable[str]) -> CodeLine | None:
        """The first line that holds the first of the words that any line holds."""
        files = (self.own, *families(self.root, self.own))
        for word in words:
            whole = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
            for path in files:
                lines = [line for line, name in _names(parsed(path)) if whole.search(name)]
                if lines:
                    return CodeLine(path, min(lines), self.root)
        return None


def stacked(text: str) -> list[Frame]:
    """The frames of a stack as Python's faulthandler prints it, outermost first."""
    return traced(text)[::-1]


def traced(text: str) -> list[Frame]:
    """The frames of a printed traceback, outermost first."""
    return [(path, int(line)) for path, line in _STACKED.findall(text)]


def words_of(complaint: str) -> Iterator[str]:
    """What a compiler's complaint is about, most telling first: quoted text, the names in it, and dtypes."""
    for found in _QUOTED.findall(complaint):
        text = "".join(found)
        yield text
        yield from reversed(re.findall(r"\w+", text))
    yield from re.findall(r"\b[a-z]+\d\w*", complaint)


def _in_family(root: Path, path: Path) -> bool:
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders(root, FAMILIES))


def _frame(frame: Frame) -> tuple[Path, int]:
    return Path(frame[0]), frame[1]


def _names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Each name and text in a module, with its line; docstrings are none."""
    said = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Constant(value=str(text)) if id(node) not in said:
                yield node.lineno, text


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("prim_func" in ast.unparse(each) for each in function.decorator_list)


def parsed(path: Path) -> ast.Module:
    """A source's module, empty where the file cannot be read or parsed."""
    try:
        return ast.parse(_text(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _text(path: Path) -> str:
    """A file's text, empty where it is none: a contestant may have named a pipe or a device."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _own_statements(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it, in order."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            waiting[:0] = ast.iter_child_nodes(node)
