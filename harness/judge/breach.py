"""A breach of the contract, and what the contract's readers share: names that a source binds, and paths of names."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.errors import printable


@dataclass(eq=False)
class Breach(Exception):
    """The first breach of the contract: where, what, and what to do."""

    line: int
    reason: str

    def __str__(self) -> str:
        return printable(f"line {self.line}: {self.reason}" if self.line else self.reason)


def bound(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    """Each name that a source binds but by an import, and its line."""
    for node in nodes:
        match node:
            case ast.Name(id=name) if not isinstance(node.ctx, ast.Load):
                yield name, node.lineno
            case (
                (ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name))
                | (ast.arg(arg=name) | ast.ExceptHandler(name=str(name)))
                | (ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)))
            ):
                yield name, node.lineno


def targets(node: ast.AST) -> list[str]:
    """The plain names that a statement assigns."""
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def root_name(node: ast.expr) -> str | None:
    """The name that a path, or a call of one, begins with; None for another expression."""
    inner, _ = unwound(node.func if isinstance(node, ast.Call) else node)
    return inner.id if isinstance(inner, ast.Name) else None


def unwound(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """The expression that a path begins with, and the names after it."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return node, names[::-1]


def of_itself(node: ast.AST) -> Iterator[ast.AST]:
    """What lies in a module or function, but not in a function or class within."""
    for each in ast.iter_child_nodes(node):
        yield each
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from of_itself(each)
