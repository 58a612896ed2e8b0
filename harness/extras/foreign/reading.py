"""A script read without running it: values of names, tensors that it makes, and functions that it calls."""

import ast
import copy
import math
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeGuard

from harness.judge.breach import root_name
from harness.judge.facts.dtypes import DTYPE_BYTES
from harness.judge.vocabulary import TORCH_NAMES

CONSTANT: Final = frozenset(f"{name}{like}" for name in ("ones", "zeros", "full", "empty") for like in ("", "_like"))
RANDOM: Final = frozenset(
    {"randn", "rand", "randint", "randperm", "randn_like", "rand_like", "randint_like", "normal", "bernoulli", "tensor"}
)
FILLS: Final = re.compile(r"((xavier_|kaiming_)?(normal|uniform)|random|exponential|trunc_normal|bernoulli|copy)_$")
DTYPES: Final = {
    **{name: name for name in ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64")},
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e4m3fn": "float8_e4m3fn",
    "e4m3_float8": "float8_e4m3fn",
}
FIELD: Final = "self."
DEPTH: Final = 12  # names and calls that are followed one after another
LARGEST: Final = 1 << 60
_OPERATIONS: Final = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_KEEP_SHAPE: Final = frozenset(
    {"cuda", "to", "contiguous", "clone", "detach", "requires_grad_", "type", "cpu", "mul_", "div_", "add_", "clamp_"}
)

Number = int | float


@dataclass(frozen=True, slots=True)
class ForeignTensor:
    """A tensor that a script makes. ``fill`` is None where the source does not tell how it is filled."""

    maker: str
    fill: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    transposed: bool = False

    @property
    def bytes(self) -> int | None:
        size = (DTYPE_BYTES | {"float64": 8}).get(self.dtype or "")
        return None if self.shape is None or size is None else math.prod(self.shape) * size

    @property
    def turned(self) -> "ForeignTensor":
        shape = None if self.shape is None else (*self.shape[:-2], *reversed(self.shape[-2:]))
        return replace(self, shape=shape, transposed=not self.transposed)


@dataclass(frozen=True, eq=False)
class Scope:
    """A module, or a function of it; the bodies of inner functions are scopes of their own."""

    node: ast.Module | ast.FunctionDef
    outer: "Scope | None" = None
    owner: str | None = None  # the class of a method

    @property
    def name(self) -> str | None:
        return self.node.name if isinstance(self.node, ast.FunctionDef) else None

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of its own, in the order of the source; bodies of lambdas too."""
        own = (node for node, _ in _below(self.node) if not isinstance(node, ast.FunctionDef))
        return tuple(sorted(own, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))))

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        return tuple(node for node in self.nodes if isinstance(node, ast.Call))

    @cached_property
    def assigned(self) -> dict[str, list[ast.expr]]:
        """What each name is assigned; an element of a tuple where several names are; the first turn of a loop."""
        found: dict[str, list[ast.expr]] = {}
        for node in self.nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        _assign(target, value, found)
                case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target, value):
                    _assign(target, value, found)
                case ast.For() | ast.comprehension():
                    _assign(node.target, _element(node.iter, 0), found)
        return found

    @property
    def parameters(self) -> list[str]:
        if not isinstance(self.node, ast.FunctionDef):
            return []
        arguments = self.node.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        return names[1:] if self.owner is not None and names[:1] == ["self"] else names


@dataclass(frozen=True)
class Reading:
    module: ast.Module

    @cached_property
    def scopes(self) -> tuple[Scope, ...]:
        """The module's scope, then those of all functions."""
        return tuple(_scopes(Scope(self.module)))

    @cached_property
    def functions(self) -> dict[str, Scope]:
        return {scope.name: scope for scope in self.scopes if scope.name is not None}

    @cached_property
    def call_sites(self) -> dict[str, list[tuple[ast.Call, Scope]]]:
        """Calls by the name of the function."""
        found: dict[str, list[tuple[ast.Call, Scope]]] = {}
        for scope in self.scopes:
            for call in scope.calls:
                found.setdefault(name_of(call.func), []).append((call, scope))
        return found

    @cached_property
    def options(self) -> dict[str, ast.expr]:
        """The defaults of the command line's options, by attribute."""
        found = {}
        for call, _ in self.call_sites.get("add_argument", []):
            default = next((each.value for each in call.keywords if each.arg == "default"), None)
            if default is not None:
                found[attribute_of(call)] = default
        return found

    # What a name stands for

    def meanings(self, name: str, scope: Scope) -> list[tuple[ast.expr, Scope]]:
        """The expressions that a name may stand for, with the scope in which each is read; ``self.x`` is a name too."""
        if name.startswith(FIELD):
            methods = [each for each in self.scopes if each.owner is not None and each.owner == scope.owner]
            return [(value, each) for each in methods for value in each.assigned.get(name, ())]
        here: Scope | None = scope
        while here is not None:
            if name in here.assigned:
                return [(value, here) for value in here.assigned[name]]
            if name in here.parameters:
                assert isinstance(here.node, ast.FunctionDef)
                default = defaults(here.node).get(name)
                return [*self.arguments(here, name), *([(default, here)] if default is not None else [])]
            here = here.outer
        return []

    def arguments(self, function: Scope, parameter: str) -> list[tuple[ast.expr, Scope]]:
        """What a function is given for a parameter: by its calls, by pytest, or by KernelBench's get_inputs."""
        position = function.parameters.index(parameter)
        found = []
        for call, scope in self.call_sites.get(function.name or "", []):
            value = argument(call, position, parameter)
            if value is not None:
                found.append((value, scope))
        assert isinstance(function.node, ast.FunctionDef)
        found += [(value, self.scopes[0]) for name, value in parametrized(function.node) if name == parameter]
        inputs = self.functions.get("get_inputs")
        if function.name == "forward" and inputs is not None:
            found += [(_element(value, position), inputs) for value in returned(inputs)]
        return found

    def value(self, node: ast.expr, scope: Scope, depth: int = DEPTH) -> Number | str | None:
        """The number or text of an expression; None where the source alone does not tell."""
        if depth == 0:
            return None
        match node:
            case ast.Constant(value=int() | float() | str() as told) if not isinstance(told, bool):
                return told
            case ast.Name(id=name):
                values = (self.value(each, where, depth - 1) for each, where in self.meanings(name, scope))
                return next((value for value in values if value is not None), None)
            case ast.Attribute(attr=name) if name in self.options:
                return self.value(self.options[name], self.scopes[0], depth - 1)
            case ast.UnaryOp(op=ast.USub()):
                number = self.value(node.operand, scope, depth - 1)
                return -number if is_number(number) else None
            case ast.Subscript():
                found = self.element(node, scope, depth - 1)
                return None if found is None else self.value(*found, depth - 1)
            case ast.BinOp():
                left, right = (self.value(each, scope, depth - 1) for each in (node.left, node.right))
                return _operated(node.op, left, right) if is_number(left) and is_number(right) else None
        return None

    def sizes(self, nodes: Sequence[ast.expr], scope: Scope) -> tuple[int, ...] | None:
        """The sizes that ``torch.randn(M, K)`` or ``torch.ones((M, K))`` is given."""
        if len(nodes) == 1 and isinstance(nodes[0], ast.Name):
            meanings = self.meanings(nodes[0].id, scope)
            if meanings and _is_display(meanings[0][0]):
                return self.sizes([meanings[0][0]], meanings[0][1])
        if len(nodes) == 1 and isinstance(nodes[0], ast.Tuple | ast.List):
            nodes = nodes[0].elts
        sizes = [self.value(node, scope) for node in nodes]
        found = tuple(size for size in sizes if isinstance(size, int) and size > 0)
        return found if sizes and len(found) == len(sizes) else None

    def dtype(self, node: ast.expr, scope: Scope, depth: int = DEPTH) -> str | None:
        """The dtype that ``torch.float16``, ``"float16"`` or a name of it means."""
        match node:
            case ast.Attribute(attr=str() as word) | ast.Constant(value=str() as word):
                return DTYPES.get(word)
            case ast.Name(id=name) if depth:
                found = (self.dtype(each, where, depth - 1) for each, where in self.meanings(name, scope))
                return next((dtype for dtype in found if dtype is not None), None)
            case ast.Call(args=[_, named, *_]) if depth and name_of(node.func) == "getattr":
                return self.dtype(named, scope, depth - 1)
        return None

    # Tensors

    def tensor(self, node: ast.expr, scope: Scope, depth: int = DEPTH) -> ForeignTensor | None:
        """The tensor that an expression makes, as far as the source tells; None for all else."""
        if depth == 0:
            return None
        match node:
            case ast.Name(id=name):
                return self._named(name, scope, depth)
            case ast.Attribute() if is_field(node):
                return self._named(ast.unparse(node), scope, depth)
            case ast.Attribute(attr="T" | "mT"):
                base = self.tensor(node.value, scope, depth - 1)
                return base and base.turned
            case ast.Attribute(attr="data"):
                return self.tensor(node.value, scope, depth - 1)
            case ast.BinOp() if not isinstance(node.op, ast.MatMult):
                sides = [self.tensor(each, scope, depth - 1) for each in (node.left, node.right)]
                return next((each for each in sides if each and each.fill == "random"), sides[0] or sides[1])
            case ast.Subscript():
                found = self.element(node, scope, depth - 1)
                return None if found is None else self.tensor(*found, depth - 1)
            case ast.Call():
                return self._called(node, scope, depth)
        return None

    def element(self, node: ast.Subscript, scope: Scope, depth: int = DEPTH) -> tuple[ast.expr, Scope] | None:
        """What stands at a place of a tuple or list, whether it is written, assigned, generated or returned."""
        place, base = self.value(node.slice, scope, depth), node.value
        if depth <= 0 or not isinstance(place, int):
            return None
        if _is_display(base):
            return (base.elts[place], scope) if -len(base.elts) <= place < len(base.elts) else None
        if isinstance(base, ast.GeneratorExp | ast.ListComp) and len(base.generators) == 1:
            turns = base.generators[0]
            if _is_display(turns.iter) and isinstance(turns.target, ast.Name) and place < len(turns.iter.elts):
                return _with_name(base.elt, turns.target.id, turns.iter.elts[place]), scope
            return base.elt, scope
        meanings: list[tuple[ast.expr, Scope]] = []
        if isinstance(base, ast.Name):
            meanings = self.meanings(base.id, scope)
        elif isinstance(base, ast.Subscript):
            meanings = [found] if (found := self.element(base, scope, depth - 1)) else []
        elif isinstance(base, ast.Call) and name_of(base.func) in self.functions:
            function = self.functions[name_of(base.func)]
            meanings = [(each, function) for each in returned(function)]
        for each, where in meanings:
            found = self.element(ast.Subscript(each, node.slice, ast.Load()), where, depth - 1)
            if found is not None:
                return found
        return None

    def _named(self, name: str, scope: Scope, depth: int) -> ForeignTensor | None:
        meanings = self.meanings(name, scope)
        made = [self.tensor(each, where, depth - 1) for each, where in meanings]
        found = [each for each in made if each is not None]
        if not found:
            return None
        first = next((each for each in found if each.fill == "random"), found[0])
        if _is_filled(name, scope) or len({each.fill for each in found}) > 1 or len(found) < len(made):
            return replace(first, fill="random" if first.fill == "random" else None)
        return first

    def _called(self, call: ast.Call, scope: Scope, depth: int) -> ForeignTensor | None:
        name = name_of(call.func)
        keywords = {each.arg: each.value for each in call.keywords if each.arg}
        if isinstance(call.func, ast.Attribute) and root_name(call.func) in TORCH_NAMES and name in CONSTANT | RANDOM:
            nodes: Sequence[ast.expr] = call.args
            if name in ("full", "randint", "normal"):
                nodes = [each for each in call.args if isinstance(each, ast.Tuple | ast.List)][:1]
            shape = self.sizes([keywords["size"]] if "size" in keywords else nodes, scope)
            dtype: str | None = "float32"
            if name.endswith("_like") and call.args:
                like = self.tensor(call.args[0], scope, depth - 1)
                shape, dtype = (like.shape, like.dtype) if like else (None, None)
            if "dtype" in keywords:
                dtype = self.dtype(keywords["dtype"], scope)
            return ForeignTensor(f"torch.{name}", "random" if name in RANDOM else "constant", shape, dtype)
        if isinstance(call.func, ast.Attribute):
            base = self.tensor(call.func.value, scope, depth - 1)
            return None if base is None else self._method(base, name, call, scope)
        if name in self.functions:
            function = self.functions[name]
            for each in returned(function):
                made = self.tensor(each, function, depth - 1)
                return replace(made, fill=None) if made is not None and _is_given(each, function) else made
        return None

    def _method(self, base: ForeignTensor, name: str, call: ast.Call, scope: Scope) -> ForeignTensor:
        """A tensor after one of its methods."""
        values = [*call.args, *(each.value for each in call.keywords)]
        if FILLS.match(name):
            return replace(base, fill=None if name == "copy_" else "random")
        if name in ("half", "float", "double", "bfloat16"):
            return replace(base, dtype=DTYPES.get(name, name))
        if name in ("t", "transpose"):
            return base.turned
        if name in ("to", "type"):
            told = [each for each in values if not isinstance(each, ast.Constant) and "dev" not in ast.unparse(each)]
            dtypes = [self.dtype(each, scope) for each in values]
            return replace(base, dtype=next(filter(None, dtypes), None if told else base.dtype))
        return base if name in _KEEP_SHAPE else replace(base, shape=None)


def _with_name(node: ast.expr, name: str, value: ast.expr) -> ast.expr:
    """An expression with a value in the place of a name."""

    class Replace(ast.NodeTransformer):
        def visit_Name(self, each: ast.Name) -> ast.expr:
            return value if each.id == name else each

    result = Replace().visit(copy.deepcopy(node))
    assert isinstance(result, ast.expr)
    return result


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """What a call gives a parameter, by place or by name."""
    by_name = next((each.value for each in call.keywords if each.arg == name), None)
    if by_name is not None or any(isinstance(each, ast.Starred) for each in call.args):
        return by_name
    return call.args[position] if position < len(call.args) else None


def name_of(node: ast.expr) -> str:
    """The last part of a function's name: ``synchronize`` of ``torch.cuda.synchronize``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def is_field(node: ast.expr) -> bool:
    """Whether it is ``self.x``."""
    return isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"


def attribute_of(call: ast.Call) -> str:
    """The attribute of an ``add_argument`` call: ``dest``, else its first long flag, else its first."""
    named = texts(each.value for each in call.keywords if each.arg == "dest")
    flags = texts(call.args)
    long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
    return named[0] if named else long.lstrip("-").replace("-", "_")


def texts(nodes: Iterable[ast.AST]) -> list[str]:
    """The text constants among some nodes."""
    return [each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def is_number(value: object) -> TypeGuard[Number]:
    return isinstance(value, int | float)


def _is_display(node: ast.expr) -> TypeGuard[ast.Tuple | ast.List]:
    return isinstance(node, ast.Tuple | ast.List)


def _operated(operation: ast.operator, left: Number, right: Number) -> Number | None:
    """Arithmetic of bounded size: a script cannot keep its reader busy."""
    small = abs(left) <= LARGEST and abs(right) <= LARGEST
    try:
        if isinstance(operation, ast.Pow):
            return left**right if small and abs(right) <= 64 and abs(left) <= 1 << 16 else None
        if isinstance(operation, ast.LShift):
            return left << right if isinstance(left, int) and isinstance(right, int) and small and right < 64 else None
        return _OPERATIONS[type(operation)](left, right) if small and type(operation) in _OPERATIONS else None
    except (ArithmeticError, ValueError):
        return None


def _is_given(node: ast.expr, scope: Scope) -> bool:
    """Whether a scope gives a tensor to a call, which may fill it."""
    given = (each for call in scope.calls for each in call.args if isinstance(each, ast.Name))
    return isinstance(node, ast.Name) and any(each.id == node.id for each in given)


def _is_filled(name: str, scope: Scope) -> bool:
    """Whether a tensor is filled in place after it is made."""
    for node in scope.nodes:
        if isinstance(node, ast.Call) and FILLS.match(name_of(node.func)):
            places = [*node.args[:1], *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            if any(ast.unparse(place) == name for place in places):
                return True
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == name:
            return True
    return False


def _scopes(scope: Scope) -> Iterator[Scope]:
    yield scope
    for node, owner in _below(scope.node):
        if isinstance(node, ast.FunctionDef):
            yield from _scopes(Scope(node, scope, owner))


def _below(node: ast.AST, owner: str | None = None) -> Iterator[tuple[ast.AST, str | None]]:
    """The nodes below one, each with the class around it, but not those inside a function below it."""
    for each in node.body if isinstance(node, ast.FunctionDef) else ast.iter_child_nodes(node):
        yield each, owner
        if not isinstance(each, ast.FunctionDef):
            yield from _below(each, each.name if isinstance(each, ast.ClassDef) else owner)


def _assign(target: ast.expr, value: ast.expr, found: dict[str, list[ast.expr]]) -> None:
    if isinstance(target, ast.Name):
        found.setdefault(target.id, []).append(value)
    elif is_field(target):
        found.setdefault(ast.unparse(target), []).append(value)
    elif isinstance(target, ast.Tuple | ast.List):
        for position, each in enumerate(target.elts):
            _assign(each, _element(value, position), found)


def _element(value: ast.expr, position: int) -> ast.expr:
    """The element of a display; else an expression that stands for it."""
    if _is_display(value) and position < len(value.elts):
        return value.elts[position]
    return ast.Subscript(value, ast.Constant(position), ast.Load())


def returned(function: Scope) -> list[ast.expr]:
    return [node.value for node in function.nodes if isinstance(node, ast.Return) and node.value is not None]


def defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {argument.arg: default for argument, default in pairs if default is not None}


def parametrized(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """The parameters that ``pytest.mark.parametrize`` gives a test, each with its first value."""
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or name_of(decorator.func) != "parametrize" or len(decorator.args) < 2:
            continue
        names, values = decorator.args[:2]
        parts = names.elts if _is_display(names) else [names]
        listed = [each.strip() for word in texts(parts) for each in word.split(",")]
        if _is_display(values) and values.elts:
            first = values.elts[0]
            yield from ((name, _element(first, place) if listed[1:] else first) for place, name in enumerate(listed))
