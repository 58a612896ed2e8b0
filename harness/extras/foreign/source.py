"""One script, read without running it: its tolerance, inputs, timer, dtypes, library calls and tuning."""

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import UsageError
from harness.extras.foreign.finding import Finding, Kind
from harness.judge.contract import LIBRARY_CALLS, TORCH_NAMES
from harness.judge.facts.problem import DTYPES, Problem, parse_shape_key
from harness.judge.limits import MAX_ABS_LIMIT

# A bound on an error is a number that something named like one is compared with.
_ERROR: Final = re.compile(r"err|diff|delta|dist", re.IGNORECASE)
_BOUNDS: Final = frozenset({"atol", "rtol", "tol", "tolerance", "max_abs_tol", "threshold"})
_RANDOM: Final = frozenset({"randn", "rand", "randint", "randn_like", "rand_like", "normal_", "uniform_", "random_"})
_TIMERS: Final = frozenset({"perf_counter", "perf_counter_ns", "do_bench", "get_profiler", "elapsed_time", "Timer"})
_TUNERS: Final = frozenset({"autotune", "AutoTuner", "carver"})
_FLOATS: Final = re.compile(r"(bfloat16|float16|float32|float8_e4m3\w*|e4m3\w*)$")
_REFERENCE: Final = re.compile(r"ref|verify|check|bench|baseline|expected|golden|test|main", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed script under ``srcs/<shape_key>/<model>/``; the problem is None where the folder names none.

    ``essence`` is the program without its docstrings, comments and layout: equal for scripts that do the same.
    """

    path: Path
    module: ast.Module
    problem: Problem | None
    essence: str

    @property
    def kernels(self) -> set[str]:
        """Names that its device kernels can have: TileLang adds ``_kernel`` to a prim_func's."""
        functions = {node.name for node in ast.walk(self.module) if isinstance(node, ast.FunctionDef)}
        return {"main_kernel"} | {f"{name}_kernel" for name in functions} | functions


def parse(path: Path, shape_key: str) -> Script:
    """Raises SyntaxError, ValueError, OSError, RecursionError or MemoryError where it cannot be read as Python."""
    text = path.read_text(encoding="utf-8")
    try:
        problem: Problem | None = parse_shape_key(shape_key)
    except UsageError:
        problem = None
    return Script(path, ast.parse(text), problem, ast.dump(_without_docstrings(ast.parse(text))))


def examine(script: Script) -> Iterator[Finding]:
    """All that is wrong with one script, in its own order, the same thing once; raises RecursionError."""
    seen: set[tuple[Kind, str]] = set()
    found = [*_tolerances(script), *_calls(script), *_dtypes(script)]
    for finding in sorted(found, key=lambda each: each.line):
        if (finding.kind, finding.what) not in seen:
            seen.add((finding.kind, finding.what))
            yield finding


def _tolerances(script: Script) -> Iterator[Finding]:
    limit = MAX_ABS_LIMIT[script.problem.output] if script.problem else max(MAX_ABS_LIMIT.values())

    def loose(node: ast.expr, name: str) -> Iterator[Finding]:
        value = _number(node)
        if value is not None and value > limit:
            yield Finding(Kind.TOLERANCE, script.path, node.lineno, f"{name}={value:g}, the contract's is {limit:g}")

    for node in ast.walk(script.module):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in _BOUNDS:
                    yield from loose(keyword.value, keyword.arg)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id.lower() in _BOUNDS:
                    yield from loose(node.value, target.id)
        elif isinstance(node, ast.Compare) and len(node.comparators) == 1:
            sides = (node.left, node.comparators[0])
            names = [ast.unparse(side) for side in sides if _number(side) is None]
            numbers = [side for side in sides if _number(side) is not None]
            if len(names) == len(numbers) == 1 and _ERROR.search(names[0]):
                yield from loose(numbers[0], names[0])


def _calls(script: Script) -> Iterator[Finding]:
    for node, function in _within(script.module):
        if not isinstance(node, ast.Attribute | ast.Name):
            continue
        name, line = node.attr if isinstance(node, ast.Attribute) else node.id, node.lineno
        torchs = isinstance(node, ast.Attribute) and _root(node) in TORCH_NAMES
        if name in _RANDOM and (torchs or name.endswith("_")):
            yield Finding(Kind.INPUTS, script.path, line, ast.unparse(node))
        if name in _TIMERS or (torchs and name == "Event"):
            yield Finding(Kind.TIMER, script.path, line, ast.unparse(node))
        if name in _TUNERS:
            yield Finding(Kind.AUTOTUNE, script.path, line, ast.unparse(node))
        if name in LIBRARY_CALLS and torchs and not (function and _REFERENCE.search(function)):
            yield Finding(Kind.LIBRARY, script.path, line, ast.unparse(node))


def _dtypes(script: Script) -> Iterator[Finding]:
    """A 16-bit kernel in an 8-bit folder, and the like: the inputs' dtype is nowhere in the source."""
    if script.problem is None:
        return
    named: dict[str, int] = {}
    for node in ast.walk(script.module):
        text = node.value if isinstance(node, ast.Constant) else node.attr if isinstance(node, ast.Attribute) else None
        match = _FLOATS.match(text) if isinstance(text, str) else None
        if match is not None:
            dtype = "float8_e4m3fn" if "e4m3" in match[1] else match[1]
            named.setdefault(dtype, getattr(node, "lineno", 0))
    narrow = {dtype: line for dtype, line in named.items() if dtype in DTYPES.values()}
    if narrow and not narrow.keys() & {*script.problem.input_dtypes}:
        dtype, line = min(narrow.items(), key=lambda item: item[1])
        what = f"{', '.join(sorted(narrow))}, where {script.problem} has inputs of {script.problem.input}"
        yield Finding(Kind.DTYPE, script.path, line, what)


def _within(module: ast.Module) -> Iterator[tuple[ast.AST, str | None]]:
    """Every node, with the name of the outermost function that it stands in."""
    for top in module.body:
        name = top.name if isinstance(top, ast.FunctionDef | ast.ClassDef) else None
        for node in ast.walk(top):
            yield node, name


def _number(node: ast.expr) -> float | None:
    try:
        value = ast.literal_eval(node)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return math.inf
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _root(node: ast.Attribute) -> str | None:
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return inner.id if isinstance(inner, ast.Name) else None


def _without_docstrings(module: ast.Module) -> ast.Module:
    for node in ast.walk(module):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            del body[0]
    return module
