"""Types in an iteration's source: what an annotation may be, and what ``type`` is asked.

TileLang and typing evaluate an annotation that is a text. So an annotation is made of names that nothing else is ever
bound to: Python's types, imports, classes of the source, and other names of such types.
"""

import ast
import builtins
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.judge.breach import Breach, bound, root_name, targets
from harness.judge.facts.import_reader import Imported, imports_of

TYPES: Final = frozenset(name for name, value in vars(builtins).items() if isinstance(value, type))
_GENERIC: Final = frozenset({"collections", "torch", "typing"})  # modules with types that take others in brackets
_MAKE_TYPES: Final = frozenset({"NamedTuple", "TypeVar", "namedtuple"})
_COMPARED: Final = ast.Is | ast.IsNot | ast.Eq | ast.NotEq | ast.In | ast.NotIn


def check(nodes: Sequence[ast.AST]) -> None:
    """Raise Breach at an annotation that may be a text, and where ``type`` makes a type."""
    known = KnownTypes.of(nodes)
    for each in annotated(nodes):
        for part in known.within(each):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value not in known.own:
                raise Breach(part.lineno, "an annotation in quotes is evaluated elsewhere; write it without quotes")
            if not known.has(part):
                raise Breach(
                    part.lineno,
                    f"the annotation '{ast.unparse(part)[:40]}' may be a text; write the type, such as T.int32",
                )
    _asked(nodes, known)


def annotated(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """The annotations of arguments, variables and results."""
    for node in nodes:
        for each in (getattr(node, name, None) for name in ("annotation", "returns")):
            if each is not None:
                yield each


def is_name_of(node: ast.AST, names: Collection[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


@dataclass(frozen=True)
class Names:
    """What the names of a source stand for: how often it binds each, and what it imports."""

    times: Counter[str]
    imported: dict[str, Imported]

    @classmethod
    def of(cls, nodes: Sequence[ast.AST]) -> "Names":
        imported = {each.bound: each for node in nodes for each in imports_of(node)}
        return cls(Counter(name for name, _ in bound(nodes)), imported)

    def home(self, path: ast.expr) -> str | None:
        """The package that a path comes from; "builtins" for Python's own, and None where the source binds the name."""
        root = root_name(path) if isinstance(path, ast.Name | ast.Attribute) else None
        if root is None or self.times[root]:
            return None
        return self.imported[root].module[0] if root in self.imported else "builtins"

    def is_pythons(self, function: ast.expr, names: Collection[str]) -> bool:
        """Whether a function is one of these of Python's own."""
        return is_name_of(function, names) and self.home(function) == "builtins"


@dataclass(frozen=True)
class KnownTypes:
    """The names of a source that stand for a type all along. ``aliases`` are other names of types."""

    names: Names
    own: frozenset[str]
    aliases: set[str]

    @classmethod
    def of(cls, nodes: Sequence[ast.AST]) -> "KnownTypes":
        names = Names.of(nodes)
        once = {name for name, number in names.times.items() if number == 1}
        classes = (node for node in nodes if isinstance(node, ast.ClassDef))
        own = {
            node.name for node in classes if all(_home(names, each) == "dataclasses" for each in node.decorator_list)
        }
        known = cls(names, frozenset(own & once), set())
        assigned = (node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None)
        for node in sorted(assigned, key=lambda each: each.lineno):
            if node.value is not None and all(map(known.has, known.within(node.value))):
                known.aliases.update(once.intersection(targets(node)))
        return known

    def has(self, part: ast.expr) -> bool:
        """Whether an expression is a type: a name of one, a path of an imported module, or what TileLang makes."""
        match part:
            case ast.Constant(value=value):
                return not isinstance(value, str) or value in self.own
            case ast.Name(id=name):
                known = name in self.own or name in self.aliases or self._is_imported(part)
                return known or self.names.is_pythons(part, TYPES)
            case ast.Attribute():
                return self._is_imported(part)
            case ast.Call():
                return self.names.home(part.func) == "tilelang" or self._name(part.func) in _MAKE_TYPES
        return False

    def within(self, annotation: ast.expr) -> Iterator[ast.expr]:
        """The parts that decide what an annotation is: not the arguments of a call, nor what TileLang brackets."""
        match annotation:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                yield from self.within(left)
                yield from self.within(right)
            case ast.Subscript(value=base, slice=inner):
                yield from self._bracketed(annotation, base, inner)
            case ast.Tuple(elts=several) | ast.List(elts=several):
                for each in several:
                    yield from self.within(each)
            case _:
                yield annotation

    def _bracketed(self, whole: ast.expr, base: ast.expr, inner: ast.expr) -> Iterator[ast.expr]:
        """A member of an enum, and an element of any dict, may be a text: only generic types have brackets."""
        home, name = _home(self.names, base), self._name(base)
        if not (self.names.is_pythons(base, TYPES) or home == "tilelang" or home in _GENERIC):
            yield whole
        elif name == "Annotated" and isinstance(inner, ast.Tuple):
            yield from self.within(inner.elts[0])
        elif home != "tilelang" and name != "Literal":
            yield from self.within(inner)

    def _is_imported(self, part: ast.expr) -> bool:
        return self.names.home(part) not in (None, "builtins")

    def _name(self, part: ast.expr) -> str | None:
        """The name of a path's end in its package."""
        if not self._is_imported(part):
            return None
        return part.attr if isinstance(part, ast.Attribute) else self.names.imported[root_name(part) or ""].name


def _home(names: Names, part: ast.expr) -> str | None:
    """The package of a path, or of what is called."""
    return names.home(part.func if isinstance(part, ast.Call) else part)


def _asked(nodes: Sequence[ast.AST], known: KnownTypes) -> None:
    """``type`` asks for the type of a value that is compared with types, or that tells its name."""
    asked = {id(part) for each in annotated(nodes) for part in ast.walk(each)}
    for node in nodes:
        match node:
            case ast.Attribute(attr="__name__", value=ast.Call() as call):
                asked.add(id(call.func))
            case ast.Call(func=function, args=[_, kinds]) if known.names.is_pythons(function, ("isinstance",)):
                asked |= {id(each) for each in (kinds, *getattr(kinds, "elts", ()))}
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [left, *others]
                rest = [part for each in sides if not asks(each) for part in known.within(each)]
                if all(isinstance(op, _COMPARED) for op in ops) and all(map(known.has, rest)):
                    asked |= {id(each.func) for each in sides if isinstance(each, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == "type" and id(node) not in asked:
            raise Breach(node.lineno, "'type' may only be compared, as in type(value) is int")


def asks(side: ast.expr) -> bool:
    """Whether an expression asks for a value's type."""
    match side:
        case ast.Call(func=ast.Name(id="type"), args=[_], keywords=[]):
            return True
    return False
