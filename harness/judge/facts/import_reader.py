"""What a Python source imports, read from its syntax tree without running it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Imported:
    """One imported name.

    ``import a.b`` gives module ("a", "b") and no name; ``from a import b as c`` gives module ("a",), name "b" and
    bound "c". ``relative`` marks an import with leading dots.
    """

    module: tuple[str, ...]
    name: str | None
    bound: str
    line: int
    relative: bool = False

    @property
    def dotted(self) -> str:
        return ".".join(self.module)

    @property
    def full(self) -> str:
        """The module and the name in it."""
        return ".".join((*self.module, *filter(None, [self.name])))


def imports(tree: ast.AST, package: tuple[str, ...] = ()) -> Iterator[Imported]:
    """Every import of a source, also inside functions; relative ones start from ``package``."""
    for node in ast.walk(tree):
        yield from imports_of(node, package)


def imports_of(node: ast.AST, package: tuple[str, ...] = ()) -> Iterator[Imported]:
    """The names that one statement imports; none for other statements."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            yield Imported(tuple(alias.name.split(".")), None, bound, node.lineno)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else ()
        module = (*base, *(node.module.split(".") if node.module else ()))
        for alias in node.names:
            yield Imported(module, alias.name, alias.asname or alias.name, node.lineno, relative=node.level > 0)
