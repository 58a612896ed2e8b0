"""The contract: the form of an iteration's source, checked without importing it.

The contract is hygiene, not security: it keeps a ladder readable and pinned. The referee makes cheating useless.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from harness.catalog import names
from harness.catalog.tree import Iteration
from harness.errors import printable
from harness.judge.facts.hashes import FAMILIES, is_literal, source_sha256
from harness.judge.facts.import_reader import imports

ALLOWED_IMPORTS: Final = frozenset(
    {
        "__future__", "collections", "dataclasses", "enum", "functools", "harness.iteration", "itertools", "kernels",
        "math", "operator", "tilelang", "torch", "typing",
    }
)  # fmt: skip
BASELINE_IMPORT: Final = "baselines"
FORBIDDEN_IMPORTS: Final = ("tilelang.autotuner", "tilelang.carver", "torch.nn", "torch.utils", "torch.ops", "torch._")
FRONT: Final = ("attention", "front", "linear", "matmul", "pinned", "warm_up", "*")  # of the families' package
FORBIDDEN_NAMES: Final = frozenset(
    {
        "AutoTuner", "autotune", "carver", "ctypes", "relay", "cublas", "cudnn", "cutlass", "compile_kernel",
        "eval", "exec", "__import__", "globals", "locals", "vars", "getattr", "setattr", "delattr", "open", "modules",
        "cell_contents", "__closure__", "__code__", "__defaults__", "__dict__", "__globals__", "__kwdefaults__",
        "__builtins__", "attrgetter", "methodcaller", "numpy", "from_numpy", "__array__", "from_dlpack", "to_dlpack",
        "__dlpack__", "sys", "os", "gc", "inspect", "importlib", "builtins", "subprocess", "pathlib", "threading",
        "tb_frame", "gi_frame", "cr_frame", "f_back", "f_locals", "f_globals", "load_json", "load_module",
        "load_library", "get_global_func", "register_func", "register_global_func",
    }
)  # fmt: skip
LIBRARY_CALLS: Final = frozenset(
    {
        "matmul", "mm", "bmm", "mv", "addmm", "baddbmm", "addbmm", "einsum", "tensordot", "linear", "_scaled_mm",
        "scaled_dot_product_attention", "functional", "dot", "inner", "chain_matmul", "__matmul__", "__rmatmul__",
        "imatmul",
    }
)  # fmt: skip
# Tensors have these methods, and TileLang has none of the same name.
LIBRARY_METHODS: Final = LIBRARY_CALLS - {"linear", "functional", "dot", "inner", "mv"}
# What `new` writes as the idea of an iteration; no two ideas may be equal, so it names the iteration.
PLACEHOLDER: Final = "Say here, in one sentence, what changes in {name} and why."
TO_REPLACE: Final = re.compile(re.escape(PLACEHOLDER.partition("{")[0]))
TORCH_NAMES: Final = frozenset({"torch", "F"})
# What torch takes from elsewhere, so that no hash of the row covers it.
TORCH_BRINGS: Final = frozenset({"classes", "from_file", "hub", "library", "load", "ops", "package"})
SEEN_ON_THE_DEVICE: Final = "torch.cuda."  # the judge reads what a call launches there
OWN_DUNDERS: Final = frozenset({"__name__", "__file__"})
PINNED_NAMES: Final = frozenset({"build", "CONFIG", "PARENT"})  # each means what is read here, so it is bound once
# What gives the compiler other options than CONFIG and the program do.
OPTIONS_IN_SOURCE: Final = re.compile(r"#\s*pragma\s+(GCC|clang)\b|_Pragma|__attribute__\s*\(\(\s*_*(optimize|target)")
DOTTED_NAMES: Final = re.compile(r"\w+(\.\w+)*", re.ASCII)
TUNING_NAME: Final = re.compile(
    r"block_\w+|bM|bN|bK|num_\w+|threads|stages|cluster_\w+|group_\w+|consumer_\w+|vector_\w+|unroll\w*|policy|panel\w*"
)


@dataclass(frozen=True, slots=True)
class Terms:
    """The idea, parent and configuration that a checked iteration states."""

    idea: str
    parent: str | None
    config: str


@dataclass(eq=False)
class Breach(Exception):
    """The first breach of the contract: where, what, and what to do."""

    line: int
    reason: str

    def __str__(self) -> str:
        return printable(f"line {self.line}: {self.reason}" if self.line else self.reason)


def check(iteration: Iteration) -> Terms:
    """Check one iteration's source; raises Breach."""
    try:
        return _check(iteration)
    except SyntaxError as error:
        raise Breach(error.lineno or 0, f"the file does not parse: {error.msg}") from None
    # Nested too deeply for the parser or for walking the tree, or a number of thousands of digits.
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise Breach(0, f"the file cannot be read as Python: {str(error) or 'nested too deeply'}") from None


def _check(iteration: Iteration) -> Terms:
    module = ast.parse(iteration.path.read_text(encoding="utf-8-sig"))
    is_baseline = iteration.number == 0
    idea = _idea(module)
    _imports(module, is_baseline=is_baseline)
    if not is_baseline:
        _forbidden(module)
    _build(module)
    _bound_once(module)
    _pinned(module)
    config = _config(module, is_baseline=is_baseline)
    parent = _parent(module, iteration)
    _repeat(iteration)
    return Terms(idea, parent, config)


def _idea(module: ast.Module) -> str:
    docstring = ast.get_docstring(module)
    if not docstring:
        raise Breach(1, "no docstring; the first line must be one sentence, the idea")
    idea = " ".join(docstring.split())
    if TO_REPLACE.match(idea):
        raise Breach(1, "the docstring is still that of `new`; say in its place what changes and why")
    if not idea.isprintable():
        raise Breach(1, "the docstring holds characters that cannot be printed")
    if "\n\n" in docstring.strip() or re.search(r"[.!?]\s+[A-Z]", idea) or not idea.endswith((".", "!", "?")):
        raise Breach(1, "the docstring must be one sentence, the idea, and end with a full stop")
    return idea


def _imports(module: ast.Module, *, is_baseline: bool) -> None:
    for each in imports(module):
        if each.relative:
            raise Breach(each.line, "relative imports are not allowed; name the module in full")
        for name in (each.dotted, each.full):
            if name.startswith(FORBIDDEN_IMPORTS):
                raise Breach(each.line, f"import of '{name}': tuning and library calls do not belong in an iteration")
        top = each.module[0]
        if each.full.split(".")[:2] in ([FAMILIES], *([FAMILIES, name] for name in FRONT)):
            raise Breach(each.line, f"import of '{each.full}': it takes other rows' levers; import a family's function")
        if top == BASELINE_IMPORT:
            if not is_baseline:
                raise Breach(each.line, "only iter000 imports baselines")
        elif top not in ALLOWED_IMPORTS and each.dotted not in ALLOWED_IMPORTS:
            allowed = ", ".join(sorted(ALLOWED_IMPORTS))
            raise Breach(each.line, f"import of '{each.dotted}' is not allowed; allowed: {allowed}")


def _forbidden(module: ast.Module) -> None:
    torch_names = TORCH_NAMES | {
        alias.asname
        for node in ast.walk(module)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname and alias.name.partition(".")[0] == "torch"
    }
    own = _own_fields(module)
    for node in ast.walk(module):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            raise Breach(node.lineno, "the @ operator calls the library; the kernel must compute the product itself")
        if isinstance(node, ast.Name):
            _name(node.lineno, node.id)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            _text(node.lineno, node.value)
        if isinstance(node, ast.Attribute):
            _attribute(node, root_name(node) in torch_names, own)
        if isinstance(node, ast.MatchClass):
            for name in node.kwd_attrs:
                _attribute(ast.Attribute(ast.Name(""), name, lineno=node.lineno), False, own)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                _imported(node.lineno, node.module or "", alias.name)


def _name(line: int, name: str) -> None:
    if name in FORBIDDEN_NAMES or (name.startswith("__") and name not in OWN_DUNDERS):
        raise Breach(line, f"'{name}' is not allowed in an iteration")


def _attribute(node: ast.Attribute, of_torch: bool, own: set[str]) -> None:
    said, root = ast.unparse(node), root_name(node)
    if (node.attr in LIBRARY_METHODS - own) or (node.attr in LIBRARY_CALLS and of_torch):
        raise Breach(node.lineno, f"'{said}' calls the library; that belongs to iter000")
    _name(node.lineno, node.attr)
    if node.attr.startswith("_") and root != "self" and not said.startswith(SEEN_ON_THE_DEVICE):
        raise Breach(node.lineno, f"'{said}' is internal to {root or 'its object'}; use what is documented")
    if of_torch and node.attr in TORCH_BRINGS:
        raise Breach(node.lineno, f"'{said}' brings in what no hash of the row covers")


def _imported(line: int, module: str, name: str) -> None:
    if name == "*":
        raise Breach(line, f"import of everything in '{module}'; import by name")
    _name(line, name)
    if module.partition(".")[0] in ("torch", "operator") and name in LIBRARY_CALLS:
        raise Breach(line, f"'{name}' of {module} calls the library; that belongs to iter000")
    if module.partition(".")[0] == "torch" and name in TORCH_BRINGS:
        raise Breach(line, f"'{name}' of {module} brings in what no hash of the row covers")


def _text(line: int, text: str) -> None:
    """A string may name no forbidden attribute, and no source in it may change the compiler's options."""
    if DOTTED_NAMES.fullmatch(text) and (named := FORBIDDEN_NAMES.intersection(text.split("."))):
        raise Breach(line, f"'{min(named)}' is not allowed in an iteration")
    if found := OPTIONS_IN_SOURCE.search(text):
        raise Breach(line, f"'{found[0]}' gives the compiler other options than CONFIG; pass them as compile_flags")


def _own_fields(module: ast.Module) -> set[str]:
    """Names of fields and methods of the source's own classes."""
    return {
        name
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        for name in ([each.name] if isinstance(each, ast.FunctionDef) else _targets(each))
    }


def _build(module: ast.Module) -> None:
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == "build":
            arguments = node.args
            if node.decorator_list:
                raise Breach(node.lineno, "build has a decorator, which may put something else in its place")
            if len(arguments.posonlyargs + arguments.args) == 1 and not (arguments.vararg or arguments.kwonlyargs):
                return
            raise Breach(node.lineno, "build must take one argument, the problem")
    raise Breach(0, "no function build(problem)")


def _bound_once(module: ast.Module) -> None:
    """What is read here as build, CONFIG and PARENT must be what the file leaves under these names."""
    found: set[str] = set()
    for name, line in _bindings(module):
        if name in PINNED_NAMES & found:
            raise Breach(line, f"'{name}' is bound twice, and the second is not read; bind it once")
        found.add(name)


def _bindings(node: ast.AST) -> Iterator[tuple[str, int]]:
    """The names that a module's own scope binds, and those that functions bind there, each with its line."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield each.name, each.lineno
            inner = (part for part in ast.walk(each) if isinstance(part, ast.Global))
            yield from ((name, part.lineno) for part in inner for name in part.names)
            for outer in _outside(each):
                yield from _bindings(outer)
            continue
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            yield each.id, each.lineno
        elif isinstance(each, ast.alias):
            yield each.asname or each.name.partition(".")[0], each.lineno
        elif isinstance(each, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and each.name:
            yield each.name, each.lineno
        elif isinstance(each, ast.MatchMapping) and each.rest:
            yield each.rest, each.lineno
        yield from _bindings(each)


def _outside(definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.AST]:
    """What a module itself computes for a definition: decorators, bases, defaults and annotations."""
    if isinstance(definition, ast.ClassDef):
        return [*definition.decorator_list, *definition.bases, *definition.keywords]
    return [*definition.decorator_list, definition.args, *filter(None, (definition.returns,))]


def _config(module: ast.Module, *, is_baseline: bool) -> str:
    """The pinned parameters: CONFIG at module level, or all literals in capitals there."""
    for node in module.body:
        value = _assigned(node, "CONFIG")
        if value is not None:
            return ", ".join(f"{name}={ast.unparse(each)}" for name, each in _items(value))
    if is_baseline:
        return ""
    raise Breach(0, "no CONFIG; pin every tuning parameter in it, as a literal: CONFIG = dict(block_M=128, …)")


def _pinned(module: ast.Module) -> None:
    """Tuning parameters must be literals: in CONFIG, in module constants, and where they are passed."""
    for node in module.body:
        for target in _targets(node):
            value = _assigned(node, target)
            if value is None or not (target.isupper() or TUNING_NAME.fullmatch(target)):
                continue
            if target == "CONFIG":
                for name, each in _items(value):
                    if not is_literal(each):
                        raise Breach(each.lineno, f"CONFIG: '{name}' is not a literal; pin it")
            elif not is_literal(value) and target != "PARENT":
                raise Breach(node.lineno, f"'{target}' is not a literal; pin it")
    for call in ast.walk(module):
        if isinstance(call, ast.Call):
            for keyword in call.keywords:
                if keyword.arg is not None and not TUNING_NAME.fullmatch(keyword.arg):
                    continue
                if not _is_pinned(keyword.value):
                    raise Breach(keyword.value.lineno, f"'{_argument(keyword)}' is not pinned")


def _parent(module: ast.Module, iteration: Iteration) -> str | None:
    for node in module.body:
        value = _assigned(node, "PARENT")
        if value is None:
            continue
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str | None):
            raise Breach(node.lineno, "PARENT must be the name of an iteration, such as 'iter000_torch_matmul'")
        if value.value is None and iteration.number == 0:
            return None
        if value.value is None:
            raise Breach(node.lineno, "PARENT is None; only iter000 has no parent")
        if (
            value.value == iteration.name
            or names.parsed(value.value) is None
            or not (iteration.path.parent / f"{value.value}.py").is_file()
        ):
            raise Breach(node.lineno, f"PARENT '{value.value}' is not another iteration in this folder")
        return value.value
    if iteration.number == 0:
        return None
    raise Breach(0, "no PARENT; name the iteration that this one starts from")


def _repeat(iteration: Iteration) -> None:
    own = source_sha256(iteration.path)
    for other in sorted(iteration.path.parent.glob("iter*.py")):
        if other == iteration.path or not other.is_file():
            continue
        if other.name.startswith(iteration.ordinal):
            raise Breach(0, f"number {iteration.number:03d} is taken twice: {other.name}")
        if other.name < iteration.path.name and source_sha256(other) == own:
            raise Breach(0, f"byte for byte the same as {other.name}")


def constant(module: ast.Module, name: str) -> ast.expr | None:
    """The value of PARENT or CONFIG in an iteration's module; None if it has none."""
    for node in module.body:
        if name in _targets(node):
            return _assigned(node, name)
    return None


def levers(module: ast.Module) -> dict[str, Any] | None:
    """The values that CONFIG pins; None if it is not a dict of literals, or there is none."""
    value = constant(module, "CONFIG")
    try:
        return None if value is None else {name: ast.literal_eval(each) for name, each in _items(value)}
    except (TypeError, ValueError, Breach):
        return None


def literals(module: ast.Module) -> set[tuple[str, str]]:
    """Keyword arguments of all calls that are literals: their names and values, as Python writes them.

    A name with two values is left out, since the source does not say which of them a kernel has.
    """
    keywords = [each for node in ast.walk(module) if isinstance(node, ast.Call) for each in node.keywords]
    found = {(each.arg, repr(ast.literal_eval(each.value))) for each in keywords if each.arg and is_literal(each.value)}
    given = Counter(name for name, _ in found)
    return {(name, value) for name, value in found if given[name] == 1}


def _targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _assigned(node: ast.stmt, name: str) -> ast.expr | None:
    if name in _targets(node) and isinstance(node, ast.Assign | ast.AnnAssign):
        return node.value
    return None


def _items(value: ast.expr) -> list[tuple[str, ast.expr]]:
    if isinstance(value, ast.Dict):
        return [
            (key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ast.unparse(value), each)
            for key, each in zip(value.keys, value.values, strict=True)
        ]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict" and not value.args:
        return [(keyword.arg or "**", keyword.value) for keyword in value.keywords]
    raise Breach(value.lineno, "CONFIG must be a dict of literals")


def _argument(keyword: ast.keyword) -> str:
    stars = "**" if keyword.arg is None else f"{keyword.arg}="
    return stars + ast.unparse(keyword.value)


def _is_pinned(value: ast.expr) -> bool:
    """Whether no call decides the value: literals, constants, sizes of the problem and local names may."""
    return not any(isinstance(node, ast.Call | ast.Await | ast.Yield) for node in ast.walk(value)) or is_literal(value)


def root_name(node: ast.Attribute) -> str | None:
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return inner.id if isinstance(inner, ast.Name) else None
