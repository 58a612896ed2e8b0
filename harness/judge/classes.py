"""Classes of an iteration's source, and ``self``: they lead to no attributes but the source's own.

A method may read private names of its own object. So ``self`` is that object all along, and where a class has private
names, no class and no method is handed on.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

from harness.judge.annotations import KnownTypes, Names, annotated, asks, is_name_of
from harness.judge.breach import Breach, bound, of_itself, root_name, targets, unwound
from harness.judge.facts.import_reader import imports_of

DATACLASS: Final = "dataclass"
ENUMS: Final = frozenset({"Enum", "Flag", "IntEnum", "IntFlag", "StrEnum"})
# The methods that Python calls by itself, and a class may have.
OWN_METHODS: Final = frozenset(
    {
        "__bool__", "__call__", "__contains__", "__enter__", "__eq__", "__exit__", "__ge__", "__getitem__", "__gt__",
        "__hash__", "__init__", "__iter__", "__le__", "__len__", "__lt__", "__ne__", "__next__", "__post_init__",
        "__repr__", "__str__",
    }
)  # fmt: skip
_PLAIN_DECORATORS: Final = frozenset({"cache", "lru_cache", "property"})  # under each a method's self stays its object
_PLAIN_BASES: Final = ("builtins", "enum", "typing")
_OF_A_CLASS: Final = frozenset({"classmethod", "staticmethod"})
# Of Python's own: these go through the members of an enum, and those ask for an object's class.
_GO_THROUGH: Final = frozenset({"enumerate", "iter", "len", "list", "max", "min", "set", "sorted", "tuple", "zip"})
_ASK: Final = frozenset({"isinstance", "issubclass"})


def check(nodes: Sequence[ast.AST]) -> None:
    """Raise Breach at a class that an iteration may not have, and where one, or ``self``, is something else."""
    _selves(nodes)
    _bodies(nodes)
    _decorators(nodes)
    _handed_on(nodes)


def _selves(nodes: Sequence[ast.AST]) -> None:
    """``self`` is the object of a method all along, so that its private names are those of the class."""
    names = Names.of(nodes)
    methods = (each for node in nodes if isinstance(node, ast.ClassDef) for each in node.body)
    own = {id(first) for each in methods if (first := _self_of(each, names)) is not None}
    for node in nodes:
        if isinstance(node, ast.arg) and node.arg == "self" and id(node) not in own:
            raise Breach(node.lineno, "'self' is the first argument of a method alone; give this one another name")
        for each in imports_of(node):
            if each.bound in ("self", "cls"):
                raise Breach(each.line, f"'{each.bound}' is the first argument of a method; import by another name")
    if names.times["self"] > len(own):
        line = max(line for name, line in bound(nodes) if name == "self")
        raise Breach(line, "'self' is bound anew; give this one another name")


def _self_of(statement: ast.stmt, names: Names) -> ast.arg | None:
    """The argument ``self`` of a class's method; a decorator of one's own could call it with any object."""
    if not isinstance(statement, ast.FunctionDef):
        return None
    first = next(iter([*statement.args.posonlyargs, *statement.args.args]), None)
    plain = all(_keeps_self(each, names) for each in statement.decorator_list)
    return first if plain and first is not None and first.arg == "self" else None


def _keeps_self(decorator: ast.expr, names: Names) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    home = names.home(called)
    return home == "tilelang" or (home in ("builtins", "functools") and name in _PLAIN_DECORATORS)


def _bodies(nodes: Sequence[ast.AST]) -> None:
    """A class holds no module and has no metaclass; an enum is a base, and makes no other enum."""
    bases = {id(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases}
    enums, own = _imported_as(nodes, ENUMS), _own_enums(nodes)
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


def _own_enums(nodes: Sequence[ast.AST]) -> set[str]:
    """The enums that the source makes."""
    enums, own = _imported_as(nodes, ENUMS), set[str]()
    for node in nodes:
        if isinstance(node, ast.ClassDef) and any(
            _names_enum(each, enums) or root_name(each) in own for each in node.bases
        ):
            own.add(node.name)
    return own


def _handed_on(nodes: Sequence[ast.AST]) -> None:
    """An enum, and any class where one has private names, stands where nothing can call it with another object.

    ``A.method(other)`` would read the private names of ``other``, and ``E("F", members)`` would make a class.
    """
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    private = any(_is_private(each) for node in classes for each in ast.walk(node))
    enums = _own_enums(nodes)
    guarded = {node.name for node in classes} | {"cls"} if private else enums
    if private:
        _methods_alone(nodes, classes, guarded)
    allowed = set(map(id, _places(nodes, enums, KnownTypes.of(nodes)))) if guarded else set()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in guarded and id(node) not in allowed:
                raise Breach(node.lineno, f"class {name} is passed on; call it, or name what you need of it")


def _is_private(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")


def _methods_alone(nodes: Sequence[ast.AST], classes: Sequence[ast.ClassDef], guarded: Collection[str]) -> None:
    """A method is called on its object: not by its class, nor by its name within the class."""
    methods = [each for node in classes for each in node.body if isinstance(each, ast.FunctionDef)]
    decorators = {id(each) for method in methods for each in method.decorator_list}
    of_objects = {each.name for each in methods if not any(map(_is_of_a_class, each.decorator_list))}
    for node in classes:
        if inner := next((each for each in node.body if isinstance(each, ast.ClassDef)), None):
            raise Breach(inner.lineno, f"class {inner.name} lies within another; write it outside")
        own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        if loose := next((each for each in _read_by_a_body(node) if each.id in own), None):
            raise Breach(loose.lineno, f"'{loose.id}' is a method without its object; call it on the object")
    for method in methods:
        first = next(iter([*method.args.posonlyargs, *method.args.args]), None)
        if "classmethod" in map(root_name, method.decorator_list) and (first is None or first.arg != "cls"):
            raise Breach(method.lineno, "the first argument of a classmethod is cls")
    for each in nodes:
        if isinstance(each, ast.Name) and each.id in _OF_A_CLASS and id(each) not in decorators:
            raise Breach(each.lineno, f"'{each.id}' may only stand above a method")
        if isinstance(each, ast.Attribute) and each.attr in of_objects and is_name_of(each.value, guarded):
            raise Breach(each.lineno, f"'{ast.unparse(each)}' is a method without its object; call it on the object")


def _read_by_a_body(node: ast.ClassDef) -> Iterator[ast.Name]:
    """The names that are read while a class is made: by its statements, and by defaults of its methods."""
    for each in of_itself(node):
        defaults = [*each.args.defaults, *each.args.kw_defaults] if isinstance(each, ast.FunctionDef) else []
        for part in (each, *(inner for default in defaults if default for inner in ast.walk(default))):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                yield part


def _is_of_a_class(decorator: ast.expr) -> bool:
    return is_name_of(decorator, _OF_A_CLASS)


def _places(nodes: Sequence[ast.AST], enums: Collection[str], known: KnownTypes) -> Iterator[ast.AST]:
    """Where a class is called, annotates, is asked about, or stands before one of its own names."""
    names = known.names
    for each in annotated(nodes):
        yield from known.within(each)
    for node in nodes:
        match node:
            case ast.Call(func=function, args=arguments, keywords=keywords):
                yield function
                if names.is_pythons(function, _ASK) and len(arguments) == 2:
                    yield from known.within(arguments[1])
                if names.is_pythons(function, _GO_THROUGH):
                    yield from (each for each in arguments if isinstance(each, ast.Name) and each.id in enums)
                if names.home(function) == "dataclasses":
                    yield from (each.value for each in keywords if each.arg == "default_factory")
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                yield value
            case ast.ClassDef(bases=bases):
                yield from bases
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [left, *others]
                if any(map(asks, sides)):
                    yield from (part for each in sides for part in known.within(each))
                yield from (
                    each
                    for op, each in zip(ops, others, strict=True)
                    if isinstance(op, ast.In | ast.NotIn)
                    if isinstance(each, ast.Name) and each.id in enums
                )
            case ast.For(iter=walked) | ast.comprehension(iter=walked):
                yield walked
            case ast.MatchClass(cls=kind):
                yield kind
            case ast.ExceptHandler(type=ast.expr() as kind):
                yield from known.within(kind)
            case ast.Raise(exc=ast.Name() as kind):
                yield kind


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
class OwnNames:
    """What the objects of a class have of it: fields and methods, private ones too, and where it sets them of self."""

    fields: frozenset[str] = frozenset()
    private: frozenset[str] = frozenset()
    made: frozenset[int] = frozenset()


@dataclass(frozen=True)
class OwnClasses:
    """The source's own classes."""

    objects: dict[str, OwnNames]  # by the class, or the name that stands for an object that it made
    of_self: dict[int, OwnNames]  # where self stands
    made: frozenset[int]  # where a method such as __init__ sets an attribute of self
    classes: frozenset[str]

    @classmethod
    def of(cls, nodes: Sequence[ast.AST]) -> "OwnClasses":
        names, objects, of_self = Names.of(nodes), dict[str, OwnNames](), dict[int, OwnNames]()
        for made_by in (node for node in nodes if isinstance(node, ast.ClassDef)):  # a base stands before what it is of
            objects[made_by.name] = found = _own_names(made_by, names, objects)
            of_self |= {id(each): found for each in ast.walk(made_by) if is_name_of(each, ("self",))}
        classes = dict(objects)
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
                made = node.value.func.id if isinstance(node.value.func, ast.Name) else ""
                objects |= {name: classes[made] for name in targets(node) if made in classes and names.times[name] == 1}
        return cls(objects, of_self, frozenset().union(*(each.made for each in classes.values())), frozenset(classes))

    def names_of(self, path: ast.Attribute) -> OwnNames:
        """The own names that may follow the first of a path."""
        inner, _ = unwound(path)
        made = inner.func if isinstance(inner, ast.Call) else inner
        if not isinstance(made, ast.Name) or (made is not inner and made.id not in self.classes):
            return OwnNames()
        return self.of_self.get(id(made)) or self.objects.get(made.id) or OwnNames()


def _own_names(node: ast.ClassDef, names: Names, known: Mapping[str, OwnNames]) -> OwnNames:
    """Those of a class with a base from elsewhere are not all its own, so it has no private ones."""
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    fields = {each.name for each in methods} | {found for each in node.body for found in targets(each)}
    makers = (each for each in methods if each.name in OWN_METHODS and _self_of(each, names))
    made = [each for method in makers for each in of_itself(method) if _sets_self(each)]
    bases = [known.get(root_name(each) or "") for each in node.bases]
    plain = all(
        base is not None or names.home(each) in _PLAIN_BASES for base, each in zip(bases, node.bases, strict=True)
    )
    private = {each.attr for each in made} | fields if plain else set[str]()
    own = [base for base in bases if base is not None]
    fields, private = fields.union(*(each.fields for each in own)), private.union(*(each.private for each in own))
    return OwnNames(frozenset(fields), frozenset(private), frozenset(map(id, made)))


def _sets_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
        return False
    return is_name_of(node.value, ("self",))
