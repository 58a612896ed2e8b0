"""How a script calls its functions and compiles its kernels: arguments and options, as far as its source tells."""

import ast
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final

import tilelang

from harness.extras.foreign.reading import attribute_of, defaults, name_of, parametrized

Values = dict[str, Any]
Options = tuple[Values, tuple[str, ...]]  # pass configs and compile flags

UNKNOWN: Final = object()  # a value that only a run would tell


class KernelNotFound(Exception):
    """The script cannot be judged; the message says why."""


class ScriptSource:
    """A script's syntax tree beside the names that its module holds once it is loaded."""

    def __init__(self, module: ast.Module, names: Mapping[str, Any]) -> None:
        self.module = module
        self.names = dict(names)
        self.functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}

    def calls(self, name: str, signature: inspect.Signature) -> Iterator[Values]:
        """The arguments of every call of a function, by parameter; UNKNOWN where only a run would tell.

        ``name.compile(…)`` of an eager function also gives it the dimensions, which are no parameters.
        """
        for call, scope in self._all_calls():
            compiles = isinstance(call.func, ast.Attribute) and call.func.attr == "compile"
            called = call.func.value if isinstance(call.func, ast.Attribute) and compiles else call.func
            if not isinstance(called, ast.Name) or called.id != name:
                continue
            keywords: Values = {}
            for keyword in call.keywords:
                value = _evaluated(keyword.value, scope)
                if keyword.arg is not None:
                    keywords[keyword.arg] = value
                elif isinstance(value, Mapping):
                    keywords |= value
                else:
                    keywords |= dict.fromkeys(set(signature.parameters) - set(keywords), UNKNOWN)
            if compiles:
                keywords = {each: value for each, value in keywords.items() if each in signature.parameters}
            try:
                yield signature.bind_partial(*(_evaluated(each, scope) for each in call.args), **keywords).arguments
            except TypeError:
                continue

    def options(self, name: str, parameters: int, outputs: int) -> Options:
        """The options with which the script itself compiles ``name`` or its result; raises KernelNotFound."""
        found: list[Options] = []
        named: list[Options] = []
        for call, scope in self._all_calls():
            if _evaluated(call.func, scope) is not tilelang.compile:
                continue
            options = {each.arg: _evaluated(each.value, scope) for each in call.keywords}
            configs, flags = options.get("pass_configs"), options.get("compile_flags")
            if configs is UNKNOWN or flags is UNKNOWN or None in options:
                raise KernelNotFound("the options that it is compiled with are decided when it runs")
            if not is_last(options.get("out_idx"), parameters, outputs):
                raise KernelNotFound(f"its output is not {last_of(outputs)}")
            pair = (dict(configs or {}), flags_of(flags))
            mentioned = {node.id for each in call.args for node in ast.walk(each) if isinstance(node, ast.Name)}
            for options_of in (found, named) if name in mentioned else (found,):
                if pair not in options_of:
                    options_of.append(pair)
        ways = named or found or [({}, ())]
        if len(ways) > 1:
            raise KernelNotFound(f"it is compiled in {len(ways)} ways, and nothing says which")
        return ways[0]

    def makers(self) -> list[str]:

        def compiles(node: ast.AST) -> bool:
            return isinstance(node, ast.Call) and _evaluated(node.func, self.names) is tilelang.compile

        return [name for name, function in self.functions.items() if any(map(compiles, _returned(function)))]

    def factories(self) -> list[str]:

        def is_prim_func(node: ast.AST) -> bool:
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
            return any(ast.unparse(each).endswith("prim_func") for each in decorators)

        return [name for name, function in self.functions.items() if any(map(is_prim_func, _returned(function)))]

    def _all_calls(self) -> Iterator[tuple[ast.Call, Values]]:
        """Every call of the source, with the names that it sees, as far as the source tells their values."""
        for top in self.module.body:
            scope = self._scope(top) if isinstance(top, ast.FunctionDef | ast.If) else self.names
            for node in ast.walk(top):
                if isinstance(node, ast.Call):
                    yield node, scope

    def _scope(self, function: ast.FunctionDef | ast.If) -> Values:
        """The module's names, and where the source gives them one value, those of a function or of the main block."""
        stores = Counter(
            node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        parameters = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
        scope = {name: value for name, value in self.names.items() if name not in {*stores, *parameters}}
        if isinstance(function, ast.FunctionDef):
            for name, value in (*defaults(function).items(), *parametrized(function)):
                _bind(scope, name, _evaluated(value, self.names))
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            parses = isinstance(node.value, ast.Call) and name_of(node.value.func) == "parse_args"
            given = _by_default(function, scope) if parses else _evaluated(node.value, scope)
            target = node.targets[0]
            pairs = [(target, given)]
            if isinstance(target, ast.Tuple) and isinstance(given, tuple) and len(given) == len(target.elts):
                pairs = list(zip(target.elts, given, strict=True))
            for each, part in pairs:
                if isinstance(each, ast.Name) and stores[each.id] == 1:
                    _bind(scope, each.id, part)
        return scope


def flags_of(flags: Any) -> tuple[str, ...]:
    """Compile flags as a tuple; TileLang takes one as a string."""
    return (flags,) if isinstance(flags, str) else tuple(flags or ())


def is_last(out_idx: Any, parameters: int, outputs: int) -> bool:
    """Whether ``out_idx`` makes a kernel return its last parameters, as many as it has outputs, or nothing."""
    indices = [] if out_idx is None else list(out_idx) if isinstance(out_idx, list | tuple) else [out_idx]
    return not indices or [each % parameters for each in indices] == list(range(parameters - outputs, parameters))


def last_of(outputs: int) -> str:
    return "its last parameter" if outputs == 1 else f"its last {outputs} parameters"


def _returned(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The expressions that a function returns; for a name, what the function assigned or defined it as."""
    made: dict[str, list[ast.AST]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef):
            made.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    made.setdefault(target.id, []).append(node.value)
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from made.get(node.value.id, []) if isinstance(node.value, ast.Name) else [node.value]


def _by_default(function: ast.AST, scope: Values) -> SimpleNamespace:
    """What ``argparse`` gives where the command line is empty, by the ``add_argument`` calls of a function."""
    found: Values = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and name_of(node.func) == "add_argument":
            given = {each.arg: _evaluated(each.value, scope) for each in node.keywords}
            unset = {"store_true": False, "store_false": True}.get(str(given.get("action")))
            found[attribute_of(node)] = given.get("default", unset)
    return SimpleNamespace(**{name: value for name, value in found.items() if value is not UNKNOWN})


def _evaluated(node: ast.expr, scope: Values) -> Any:
    """The value of an expression without calls; UNKNOWN where it has none here."""
    if any(isinstance(each, ast.Call | ast.Await | ast.NamedExpr | ast.Starred) for each in ast.walk(node)):
        return UNKNOWN
    try:
        return eval(compile(ast.Expression(node), "<argument>", "eval"), dict(scope))
    except Exception:
        return UNKNOWN


def _bind(scope: Values, name: str, value: Any) -> None:
    if value is not UNKNOWN:
        scope[name] = value
