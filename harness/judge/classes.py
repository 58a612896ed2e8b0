"""Classes, types and annotations of an iteration's source: they lead to no code and no attributes but its own.

TileLang and typing evaluate an annotation that is a text, and a method reads private names of its own object. So what
an annotation, a class and ``self`` may be is a short list.
"""

import ast
import builtins
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.judge.breach import Breach, bound, of_itself, root_name, targets, unwound
from harness.judge.facts.import_reader import Imported, imports_of

DATACLASS: Final = "dataclass"
ENUMS: Final = frozenset({"Enum", "Flag", "IntEnum", "IntFlag", "StrEnum"})
# The methods that Python calls by itself, and a class may have; TYPES are Python's own.
OWN_METHODS: Final = frozenset(
    {
        "__bool__", "__call__", "__contains__", "__enter__", "__eq__", "__exit__", "__ge__", "__getitem__", "__gt__",
        "__hash__", "__init__", "__iter__", "__le__", "__len__", "__lt__", "__ne__", "__next__", "__post_init__",
        "__repr__", "__str__",
    }
)  # fmt: skip
TYPES: Final = frozenset(name for name, value in vars(builtins).items() if isinstance(value, type))
_PLAIN_DECORATORS: Final = frozenset({"cache", "lru_cache", "property"})  # under each a method's self stays its object
_OF_A_CLASS: Final = frozenset({"classmethod", "staticmethod"})
_COMPARED: Final = ast.Is | ast.IsNot | ast.Eq | ast.NotEq | ast.In | ast.NotIn


def check(nodes: Sequence[ast.AST]) -> None:
    """Raise Breach at a class, a type or an annotation that an iteration may not have; the module is the first node."""
    known = KnownTypes.of(nodes)
    _selves(nodes)
    _bodies(nodes)
    _decorators(nodes)
    _annotations(nodes, known)
    _types_asked(nodes, known)
    _classes_named(nodes)


@dataclass(frozen=True)
class KnownTypes:
    """The names of a source that stand for a type all along: nothing else is ever bound to one of them."""

    own: frozenset[str]
    imported: dict[str, Imported]
    aliases: dict[str, ast.expr]  # of the module
    bound: Collection[str]

    @classmethod
    def of(cls, nodes: Sequence[ast.AST]) -> "KnownTypes":
        times = Counter(name for name, _ in bound(nodes))
        once = {name for name, number in times.items() if number == 1}
        imported = {each.bound: each for node in nodes for each in imports_of(node) if each.bound not in times}
        data = {name for name, each in imported.items() if each.module[0] == "dataclasses"}
        classes = (node for node in nodes if isinstance(node, ast.ClassDef))
        own = {node.name for node in classes if data.issuperset(map(root_name, node.decorator_list))}
        body = nodes[0].body if isinstance(nodes[0], ast.Module) else []
        assigned = [node for node in body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None]
        aliases = {name: node.value for node in assigned for name in targets(node) if name in once and node.value}
        return cls(frozenset(own & once), imported, aliases, times)

    def has(self, part: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether an expression is a type: a name of one, a path of an imported module, or what TileLang makes."""
        root = root_name(part)
        match part:
            case ast.Constant(value=value):
                return not isinstance(value, str)
            case ast.Name(id=name) if name in self.aliases and name not in seen:
                return all(self.has(each, seen | {name}) for each in self.within(self.aliases[name]))
            case ast.Name(id=name):
                return name in self.own or name in self.imported or (name in TYPES and name not in self.bound)
            case ast.Attribute():
                return root in self.imported
            case ast.Call():
                return root in self.imported and self.imported[root].module[0] == "tilelang"
        return False

    def within(self, annotation: ast.expr) -> Iterator[ast.expr]:
        """The parts that decide what an annotation is: not the arguments of a call, nor those of Literal."""
        match annotation:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                yield from self.within(left)
                yield from self.within(right)
            case ast.Subscript(value=ast.Name(id=name)) if name in self.own:
                yield annotation  # a member of an enum may be a text
            case ast.Subscript(value=value, slice=inner):
                yield value
                if isinstance(value, ast.Name) or root_name(value) in ("collections", "typing"):
                    yield from () if self._is_literal(value) else self.within(inner)
            case ast.Tuple(elts=several) | ast.List(elts=several):
                for each in several:
                    yield from self.within(each)
            case _:
                yield annotation

    def _is_literal(self, value: ast.expr) -> bool:
        found = self.imported.get(root_name(value) or "")
        said = value.attr if isinstance(value, ast.Attribute) else found and found.name
        return found is not None and found.module[0] == "typing" and said == "Literal"


def _annotations(nodes: Sequence[ast.AST], known: KnownTypes) -> None:
    """Each is written where it stands, and is no text."""
    for each in _annotated(nodes):
        for part in known.within(each):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                raise Breach(part.lineno, "an annotation in quotes is evaluated elsewhere; write it without quotes")
            if not known.has(part):
                raise Breach(part.lineno, f"the annotation '{ast.unparse(part)[:40]}' may be a text; write the type")


def _annotated(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    for node in nodes:
        for each in (getattr(node, name, None) for name in ("annotation", "returns")):
            if each is not None:
                yield each


def _types_asked(nodes: Sequence[ast.AST], known: KnownTypes) -> None:
    """``type`` asks for the type of a value that is compared with types, or that tells its name."""
    asked = set[int]()
    for node in nodes:
        match node:
            case ast.Attribute(attr="__name__", value=ast.Call() as call):
                asked.add(id(call.func))
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [left, *others]
                calls = [each.func for each in sides if isinstance(each, ast.Call) and _asks(each)]
                rest = [part for each in sides if not _asks(each) for part in known.within(each)]
                if all(isinstance(op, _COMPARED) for op in ops) and all(map(known.has, rest)):
                    asked |= set(map(id, calls))
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == "type" and id(node) not in asked:
            raise Breach(node.lineno, "'type' may only be compared, as in type(value) is int")


def _asks(side: ast.expr) -> bool:
    return (
        isinstance(side, ast.Call)
        and isinstance(side.func, ast.Name)
        and (side.func.id == "type" and len(side.args) == 1 and not side.keywords)
    )


def _selves(nodes: Sequence[ast.AST]) -> None:
    """``self`` is the object of a method all along, so that its private names are those of the class."""
    own = {id(first) for node in nodes if isinstance(node, ast.ClassDef) for first in map(_self_of, node.body) if first}
    for node in nodes:
        if isinstance(node, ast.arg) and node.arg == "self" and id(node) not in own:
            raise Breach(node.lineno, "'self' is the first argument of a method alone; give this one another name")
    times = Counter(name for name, _ in bound(nodes))
    if times["self"] > len(own):
        line = max(line for name, line in bound(nodes) if name == "self")
        raise Breach(line, "'self' is bound anew; give this one another name")


def _self_of(statement: ast.stmt) -> ast.arg | None:
    """The argument ``self`` of a class's method; a decorator of one's own could call it with any object."""
    if not isinstance(statement, ast.FunctionDef):
        return None
    first = next(iter([*statement.args.posonlyargs, *statement.args.args]), None)
    plain = all(_keeps_self(each) for each in statement.decorator_list)
    return first if plain and first is not None and first.arg == "self" else None


def _keeps_self(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    inner, names = unwound(called)
    return isinstance(inner, ast.Name) and (names[-1] if names else inner.id) in _PLAIN_DECORATORS


def _bodies(nodes: Sequence[ast.AST]) -> None:
    """A class holds no module and has no metaclass; an enum is a base, and makes no other enum."""
    bases = {id(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases}
    enums, own = _imported_as(nodes, ENUMS), own_enums(nodes)
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            if node.keywords:
                raise Breach(node.lineno, f"class {node.name} has a keyword, such as metaclass; leave it out")
            if imported := next(_imported_by(node), None):
                raise Breach(imported.lineno, "an import in a class makes a module its attribute; import outside of it")
        if isinstance(node, ast.expr) and _names_enum(node, enums) and id(node) not in bases:
            raise Breach(node.lineno, "an enum may only be the base of a class")
        if isinstance(node, ast.Call) and root_name(node) in own and len(node.args) + len(node.keywords) > 1:
            raise Breach(node.lineno, "an enum is asked for one value; it makes no other enum")


def own_enums(nodes: Sequence[ast.AST]) -> set[str]:
    """The enums that the source makes."""
    enums, own = _imported_as(nodes, ENUMS), set[str]()
    for node in nodes:
        if isinstance(node, ast.ClassDef) and any(
            _names_enum(each, enums) or root_name(each) in own for each in node.bases
        ):
            own.add(node.name)
    return own


def _classes_named(nodes: Sequence[ast.AST]) -> None:
    """An enum, and any class where one has private names, stands where it cannot be called with another object.

    ``A.method(other)`` would read the private names of ``other``, and ``E("F", members)`` would make a class.
    """
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    private = any(
        isinstance(each, ast.Attribute) and each.attr.startswith("_") for node in classes for each in ast.walk(node)
    )
    guarded = {node.name for node in classes} | {"cls"} if private else own_enums(nodes)
    if not guarded:
        return
    methods = {
        each.name
        for node in classes
        for each in node.body
        if isinstance(each, ast.FunctionDef) and not _is_of_a_class(each)
    }
    allowed = set(map(id, _places_of_a_class(nodes)))
    decorators = {id(each) for node in classes for part in node.body for each in getattr(part, "decorator_list", ())}
    for node in nodes:
        match node:
            case ast.Name(id=name) if private and name in _OF_A_CLASS and id(node) not in decorators:
                raise Breach(node.lineno, f"'{name}' may only stand above a method")
            case ast.FunctionDef(args=ast.arguments(posonlyargs=[], args=[ast.arg(arg=first), *_])) if (
                private and first != "cls" and "classmethod" in map(root_name, node.decorator_list)
            ):
                raise Breach(node.lineno, f"the first argument of a classmethod is cls, not {first}")
            case ast.Attribute(value=ast.Name(id=name), attr=method) if (
                private and name in guarded and method in methods
            ):
                raise Breach(node.lineno, f"'{name}.{method}' is a method without its object; call it on the object")
            case ast.Name(id=name, ctx=ast.Load()) if name in guarded and id(node) not in allowed:
                raise Breach(node.lineno, f"class {name} is passed on; call it, or name what you need of it")


def _is_of_a_class(method: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id in _OF_A_CLASS for each in method.decorator_list)


def _places_of_a_class(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Where a class is called, annotates, is compared or asked, or stands before one of its own names."""
    for each in _annotated(nodes):
        yield from ast.walk(each)
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                yield from (node.func, *ast.walk(kinds))
            case ast.Call(func=function):
                yield function
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                yield value
            case ast.ClassDef(bases=bases):
                yield from bases
            case ast.Compare(left=left, comparators=others):
                yield from (left, *others)
            case ast.For(iter=walked) | ast.comprehension(iter=walked):
                yield walked
            case ast.MatchClass(cls=kind) | ast.ExceptHandler(type=ast.expr() as kind):
                yield from ast.walk(kind)
            case ast.keyword(arg="default_factory", value=made):
                yield made


def _imported_as(nodes: Sequence[ast.AST], names: Collection[str]) -> set[str]:
    """What the source calls the names that it imports."""
    return {each.bound for node in nodes for each in imports_of(node) if each.name in names}


def _names_enum(node: ast.expr, enums: Collection[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in ENUMS and isinstance(node.value, ast.Name)
    return isinstance(node, ast.Name) and node.id in enums


def _imported_by(node: ast.AST) -> Iterator[ast.stmt]:
    """The imports of a class's body, whatever they stand within, but not those of its functions."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Import | ast.ImportFrom):
            yield each
        elif not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _imported_by(each)


def _decorators(nodes: Sequence[ast.AST]) -> None:
    """``dataclass`` writes code from the names of a class, so it stands above a class of the file, and alone."""
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    if crowded := next((node for node in classes if len(node.decorator_list) > 1), None):
        raise Breach(crowded.lineno, f"class {crowded.name} has several decorators; leave one")
    decorators = (each.func if isinstance(each, ast.Call) else each for node in classes for each in node.decorator_list)
    above, named = set(map(id, decorators)), _imported_as(nodes, (DATACLASS,))
    for node in nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or id(node) in above:
            continue
        if node.id in named if isinstance(node, ast.Name) else node.attr == DATACLASS:
            raise Breach(node.lineno, f"'{DATACLASS}' may only stand above a class")


@dataclass(frozen=True)
class OwnClasses:
    """The source's own classes: their fields and methods, and the attributes that their objects set of themselves."""

    fields: frozenset[str]
    objects: frozenset[str]  # names that stand for a class, or for an object that one made
    private: frozenset[str]
    made: frozenset[int]  # where a method such as __init__ sets an attribute of self

    @classmethod
    def of(cls, nodes: Sequence[ast.AST]) -> "OwnClasses":
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        body = [each for node in classes for each in node.body]
        methods = [each for each in body if isinstance(each, ast.FunctionDef)]
        fields = {each.name for each in methods} | {name for each in body for name in targets(each)}
        named = {node.name for node in classes}
        times = Counter(name for name, _ in bound(nodes))
        assigned = (node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign))
        objects = {
            name
            for node in assigned
            if isinstance(node.value, ast.Call) and root_name(node.value) in named
            for name in targets(node)
            if times[name] == 1
        }
        set_there = [
            each
            for method in methods
            if method.name in OWN_METHODS
            for each in of_itself(method)
            if isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load)
            if isinstance(each.value, ast.Name) and each.value.id == "self"
        ]
        private = {each.attr for each in set_there} | fields
        owners = frozenset(named | objects | {"self"})
        return cls(frozenset(fields), owners, frozenset(private), frozenset(map(id, set_there)))

    def fields_of(self, path: ast.Attribute) -> frozenset[str]:
        """The fields that a path may name: of an own class or its object."""
        return self.fields if root_name(unwound(path)[0]) in self.objects else frozenset()
