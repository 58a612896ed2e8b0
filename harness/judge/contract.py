"""The contract: the form of an iteration's source, checked without importing it.

The contract is hygiene, not security: it keeps a ladder readable and pinned. The referee makes cheating useless.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.catalog import names
from harness.catalog.tree import Iteration
from harness.judge import vocabulary
from harness.judge.breach import Breach as Breach
from harness.judge.breach import bound, of_itself, root_name, targets
from harness.judge.facts.hashes import FAMILIES, is_literal, source_sha256
from harness.judge.facts.import_reader import Imported, imports
from harness.machine.repository import SHIPPED, folders

# What `new` writes as the idea of an iteration; no two ideas may be equal, so it names the iteration.
PLACEHOLDER: Final = "Say here, in one sentence, what changes in {name} and why."
TO_REPLACE: Final = re.compile(re.escape(PLACEHOLDER.partition("{")[0]))
PINNED_NAMES: Final = frozenset({"build", "CONFIG", "PARENT"})  # each means what is read here, so it is bound once
_ARITHMETIC: Final = (
    ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant, ast.Name, ast.Subscript, ast.expr_context,
    ast.Tuple, ast.List, ast.keyword,
)  # fmt: skip
CONSTANTS_OF: Final = frozenset({"T", "math", "tilelang", "torch"})
# Where Python ends no line, or another, and where inspect, tokenize or TileLang does.
ODD_LINES: Final = re.compile("\r(?!\n)|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
BEGINS: Final = re.compile(r"\s*(async\s+)?def\s+\w|.*(?<!\w)lambda(:|\s)")  # a function's line, as inspect finds it
ABBREVIATIONS: Final = re.compile(r"\b(e\.g|i\.e|vs|cf|approx)\.", re.IGNORECASE)  # they end no sentence
OWN_CODE: Final = "harness"  # what a family takes from there is no module, unless it is a file
MOST_IMPORTS: Final = 8  # from one family to the next
MOST_BYTES: Final = 1 << 18  # of a file: a long kernel has 30 KB
MOST_CONFIG: Final = 4000  # characters of a CONFIG as a row shows it
OPTIONS: Final = ("compile_flags", "pass_configs")  # of TileLang's compiler
PURE: Final = frozenset({"abs", "dict", "int", "list", "max", "min", "tuple"})
TUNING_NAME: Final = re.compile(
    r"block_\w+|bM|bN|bK|num_\w+|threads|stages|cluster_\w+|group_\w+|consumer_\w+|vector_\w+|unroll\w*|policy|panel\w*"
)


@dataclass(frozen=True, slots=True)
class Terms:
    """The idea, parent and configuration that a checked iteration states."""

    idea: str
    parent: str | None
    config: str


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
    text = _text(iteration.path)
    module = ast.parse(text)
    _found_where_they_stand(module, text)
    is_baseline = iteration.number == 0
    idea = _idea(module)
    families = folders(iteration.path.parents[6], FAMILIES)
    taken = [each for each in imports(module) if each.module[:1] == (FAMILIES,)]
    modules = {each.bound for each in taken if _leads_to_a_module(families, each)}
    vocabulary.check(module, is_baseline=is_baseline, modules=modules)
    _build(module)
    _bound_once(module)
    _pinned(module)
    config = _config(module, is_baseline=is_baseline)
    parent = _parent(module, iteration)
    _repeat(iteration)
    return Terms(idea, parent, config)


def _text(path: Path) -> str:
    """The source in UTF-8, as Python will read it."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise Breach(0, f"the file has over {MOST_BYTES >> 10} KB")
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    if not encoding.startswith("utf-8"):
        raise Breach(1, f"the file says that it is {encoding}; write it in UTF-8")
    text = content.decode("utf-8-sig")
    if odd := ODD_LINES.search(text):
        raise Breach(text.count("\n", 0, odd.start()) + 1, f"{odd[0]!r} ends a line for some readers; leave it out")
    return text


def _found_where_they_stand(module: ast.Module, text: str) -> None:
    """TileLang traces the text that inspect finds of a function: that must be the function, and no text above it."""
    lines, nodes = text.split("\n"), list(ast.walk(module))
    within_texts = {
        line
        for node in nodes
        if isinstance(node, ast.Constant | ast.JoinedStr)
        for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)
    }
    begun = {node.lineno for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)}
    for line in sorted(begun):
        if line in within_texts or not BEGINS.match(lines[line - 1]):
            raise Breach(line, "another text may be read for this function; begin it on a line of its own")


def _leads_to_a_module(families: Sequence[Path], imported: Imported, deep: int = MOST_IMPORTS) -> bool:
    """Whether an import of the families binds a module, not what one holds: a family's own import may be one too."""
    if imported.module[:1] != (FAMILIES,):
        return imported.module[0] != OWN_CODE or SHIPPED.joinpath(*imported.module, f"{imported.name}.py").is_file()
    if imported.name is None or not deep:
        return True
    places = [base.joinpath(*imported.module[1:]) for base in families]
    sources = (file for place in places for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file())
    within = [each for file in sources for each in imports(ast.parse(file.read_bytes()))]
    if named := [each for each in within if each.bound == imported.name]:
        return any(each.relative or _leads_to_a_module(families, each, deep - 1) for each in named)
    if any(each.bound == "*" for each in within):
        return True
    return any((place / imported.name).is_dir() or (place / f"{imported.name}.py").is_file() for place in places)


def _idea(module: ast.Module) -> str:
    docstring = ast.get_docstring(module) or ""
    idea = " ".join(docstring.split())
    if not idea:
        raise Breach(1, "no docstring; the first line must be one sentence, the idea")
    if TO_REPLACE.match(idea):
        raise Breach(1, "the docstring is still that of `new`; say in its place what changes and why")
    if idea[0] in "=+-@":
        raise Breach(1, f"the docstring begins with {idea[0]}, which a spreadsheet takes for a formula")
    if not idea.isprintable():
        raise Breach(1, "the docstring holds characters that cannot be printed")
    if (
        "\n\n" in docstring.strip()
        or re.search(r"[.!?]\s+[A-Z]", ABBREVIATIONS.sub("", idea))
        or not idea.endswith((".", "!", "?"))
    ):
        raise Breach(1, "the docstring must be one sentence, the idea, and end with a full stop")
    return idea


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
        if name == "dict":
            raise Breach(line, "'dict' is bound anew; CONFIG would no longer be what is read here")
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
            said = ", ".join(f"{name}={ast.unparse(each)}" for name, each in _items(value))
            if len(said) > MOST_CONFIG:
                raise Breach(node.lineno, f"CONFIG has over {MOST_CONFIG:,} characters; pin parameters, not data")
            return said
    if is_baseline:
        return ""
    raise Breach(0, "no CONFIG; pin every tuning parameter in it, as a literal: CONFIG = dict(block_M=128, …)")


def _pinned(module: ast.Module) -> None:
    """Tuning parameters must be literals: in CONFIG, in module constants, and where they are passed."""
    bound_anew = {name for name, _ in bound(list(ast.walk(module)))}
    for node in module.body:
        for target in targets(node):
            value = _assigned(node, target)
            if value is None or not (target.isupper() or TUNING_NAME.fullmatch(target)):
                continue
            if target == "CONFIG":
                for name, each in _items(value):
                    if name == "**" or not is_literal(each):
                        raise Breach(each.lineno, f"CONFIG: '{name}' is not a literal; pin it")
            elif not _is_constant(value, bound_anew) and target != "PARENT":
                raise Breach(node.lineno, f"'{target}' is not a literal; pin it")
    held = levers(module) or {}  # to CONFIG, while the code runs
    for name, line in _bound_among_others(module, bound_anew):
        if name in held:
            continue
        if name.isupper() or TUNING_NAME.fullmatch(name.lower()):
            raise Breach(line, f"'{name}' is not pinned by a statement of its own; assign it a literal")
    for keyword in (each for call in ast.walk(module) if isinstance(call, ast.Call) for each in call.keywords):
        is_lever = keyword.arg in (None, *OPTIONS) or TUNING_NAME.fullmatch(keyword.arg or "")
        if is_lever and not _is_pinned(keyword.value):
            raise Breach(keyword.value.lineno, f"'{_argument(keyword)}' is not pinned")


def _bound_among_others(module: ast.Module, bound_anew: Collection[str]) -> Iterator[tuple[str, int]]:
    """Names of a module that a tuple, a branch, a loop or a function binds, where their values are not read here."""
    alone = [target for node in module.body if isinstance(node, ast.Assign) for target in node.targets]
    alone += [node.target for node in module.body if isinstance(node, ast.AnnAssign)]
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=several)], value=ast.Tuple(elts=values)) if len(several) == len(
                values
            ) and all(_is_constant(each, bound_anew) for each in values):
                alone += several
    of_comprehensions = [node.target for node in ast.walk(module) if isinstance(node, ast.comprehension)]
    read = {id(each) for each in alone} | {id(part) for each in of_comprehensions for part in ast.walk(each)}
    for each in of_itself(module):
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load) and id(each) not in read:
            yield each.id, each.lineno
    for node in ast.walk(module):
        if isinstance(node, ast.Global):
            yield from ((name, node.lineno) for name in node.names)


def _is_constant(value: ast.expr, bound_anew: Collection[str] = ()) -> bool:
    """A literal, arithmetic over literals and constants, or a dict by TileLang's pass configurations.

    A constant is one of the file, of math, or a dtype of TileLang or torch, where nothing else has that name.
    """
    if isinstance(value, ast.Dict):
        keys = (key is not None and (is_literal(key) or "PassConfigKey." in ast.unparse(key)) for key in value.keys)
        return all(keys) and all(_is_constant(each, bound_anew) for each in value.values)
    return is_literal(value) or all(_is_of_a_constant(each, bound_anew) for each in ast.walk(value))


def _is_of_a_constant(node: ast.AST, bound_anew: Collection[str]) -> bool:
    match node:
        case ast.Call():
            made = isinstance(node.func, ast.Name) and node.func.id in ("float", "TypeVar")
            return made or (root_name(node) == "math" and "math" not in bound_anew)
        case ast.Attribute():
            return root_name(node) in CONSTANTS_OF.difference(bound_anew)
        case ast.Name(id=name):
            return name.isupper() or (name in (*CONSTANTS_OF, "float", "TypeVar") and name not in bound_anew)
    return isinstance(node, _ARITHMETIC)


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
        if name in targets(node):
            return _assigned(node, name)
    return None


def levers(module: ast.Module, name: str = "CONFIG") -> dict[str, Any] | None:
    """The values that CONFIG pins, or another constant; None if it is not a dict of literals, or there is none."""
    value = constant(module, name)
    try:
        return None if value is None else {lever: ast.literal_eval(each) for lever, each in _items(value)}
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


def _assigned(node: ast.stmt, name: str) -> ast.expr | None:
    if name in targets(node) and isinstance(node, ast.Assign | ast.AnnAssign):
        return node.value
    return None


def _items(value: ast.expr) -> list[tuple[str, ast.expr]]:
    if isinstance(value, ast.Dict):
        return [(_lever(key), each) for key, each in zip(value.keys, value.values, strict=True)]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict" and not value.args:
        return [
            (_lever(ast.Constant(each.arg, lineno=value.lineno) if each.arg else None), each.value)
            for each in value.keywords
        ]
    raise Breach(value.lineno, "CONFIG must be a dict of literals")


def _lever(key: ast.expr | None) -> str:
    """A key of CONFIG, as a row shows it; ``**`` for another dict."""
    if key is None:
        return "**"
    name = key.value if isinstance(key, ast.Constant) else None
    if not isinstance(name, str) or not name.isascii() or not name.isidentifier():
        raise Breach(key.lineno, f"CONFIG: {ast.unparse(key)[:40]} is no name of a parameter")
    return name


def _argument(keyword: ast.keyword) -> str:
    stars = "**" if keyword.arg is None else f"{keyword.arg}="
    return stars + ast.unparse(keyword.value)


def _is_pinned(value: ast.expr) -> bool:
    """Whether no call decides the value: literals, constants, sizes of the problem, local names and arithmetic may."""
    called = [node for node in ast.walk(value) if isinstance(node, ast.Call | ast.Await | ast.Yield)]
    return is_literal(value) or all(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in PURE for each in called
    )
