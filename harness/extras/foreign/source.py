"""One script, read without running it: what a script of a ladder must not hold, and what no script should."""

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.extras.foreign.finding import AuditFinding, Kind
from harness.extras.foreign.flaws import ERROR, Flaws
from harness.extras.foreign.guess import guessed
from harness.extras.foreign.reading import Reading
from harness.extras.foreign.scripts import is_in_ladder, problem_of
from harness.judge.breach import root_name
from harness.judge.facts.problem import DTYPES, Problem
from harness.judge.limits import MAX_ABS_LIMIT
from harness.judge.vocabulary import LIBRARY_CALLS, TORCH_NAMES

_BOUNDS: Final = frozenset({"atol", "rtol", "tol", "tolerance", "max_abs_tol", "threshold"})
_RANDOM: Final = frozenset({"randn", "rand", "randint", "randn_like", "rand_like", "normal_", "uniform_", "random_"})
_TIMERS: Final = frozenset({"perf_counter", "perf_counter_ns", "do_bench", "get_profiler", "elapsed_time", "Timer"})
_TUNERS: Final = frozenset({"autotune", "AutoTuner", "carver"})
_FLOATS: Final = re.compile(r"(bfloat16|float16|float32|float8_e4m3\w*|e4m3\w*)$")
_REFERENCE: Final = re.compile(r"ref|verify|check|bench|baseline|expected|golden|test|main", re.IGNORECASE)
_LARGEST_TOLERANCE: Final = 5 * max(MAX_ABS_LIMIT.values())  # of a script that promised no contract
_COUNTS: Final = re.compile(r"count|num|_n\b|n_|percent|pct|mismatch|code|status", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedScript:
    """A parsed script. ``problem`` is that of its folder ``srcs/<shape_key>/<model>/``, or of the caller, or a guess.

    ``essence`` is the program without docstrings, comments and layout: equal for scripts that do the same. ``ladder``
    tells that its figures rank beside those of others, and ``promised`` that ``problem`` is no guess.
    """

    path: Path
    module: ast.Module
    problem: Problem | None
    essence: str
    ladder: bool
    promised: bool

    @property
    def kernels(self) -> set[str]:
        """Names that its device kernels can have: TileLang adds ``_kernel`` to a prim_func's."""
        functions = {node.name for node in ast.walk(self.module) if isinstance(node, ast.FunctionDef)}
        return {"main_kernel"} | {f"{name}_kernel" for name in functions} | functions


def parse(path: Path, problem: Problem | None) -> ParsedScript:
    """Raises SyntaxError, ValueError, OSError, RecursionError or MemoryError for a file that is no readable Python."""
    text = path.read_text(encoding="utf-8")
    module, ladder = ast.parse(text), is_in_ladder(path)
    if problem is None and ladder:
        problem = problem_of(path.parent.parent.name)[0]
    known = problem or guessed(Reading(module))
    essence = ast.dump(_without_docstrings(ast.parse(text)))
    return ParsedScript(path, module, known, essence, ladder, promised=ladder or problem is not None)


def examine(script: ParsedScript) -> Iterator[AuditFinding]:
    """All that is wrong with one script, each thing once, by line; raises RecursionError."""
    flaws = Flaws(Reading(script.module), script.problem, script.essence).all()
    found = [*_tolerances(script), *(AuditFinding(kind, script.path, line, what) for kind, line, what in flaws)]
    if script.promised:
        found += _dtypes(script)
    if script.ladder:
        found += _calls(script)
    first: dict[tuple[Kind, str], AuditFinding] = {}
    for finding in sorted(found, key=lambda each: each.line):
        first.setdefault((finding.kind, finding.what), finding)
    yield from first.values()


def _tolerances(script: ParsedScript) -> Iterator[AuditFinding]:
    limit = _LARGEST_TOLERANCE
    if script.promised:
        limit = MAX_ABS_LIMIT.get(script.problem.output, 0.0) if script.problem else max(MAX_ABS_LIMIT.values())
    for node, name in _bounds(script.module):
        value = _number(node)
        if value is not None and value > limit and (script.promised or name != "threshold"):
            what = f"{name}={value:g}, the contract's is {limit:g}" if script.promised else f"{name}={value:g}"
            yield AuditFinding(Kind.TOLERANCE, script.path, node.lineno, what)


def _bounds(module: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Expressions that bound an error, with the name of the bound or of the error."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            yield from ((each.value, each.arg or "") for each in node.keywords if each.arg in _BOUNDS)
        elif isinstance(node, ast.Assign):
            targets = (target.id for target in node.targets if isinstance(target, ast.Name))
            yield from ((node.value, name) for name in targets if name.lower() in _BOUNDS)
        elif isinstance(node, ast.Compare) and len(node.comparators) == 1:
            sides = (node.left, node.comparators[0])
            names = [ast.unparse(side) for side in sides if _number(side) is None]
            numbers = [side for side in sides if _number(side) is not None]
            if len(names) == len(numbers) == 1 and ERROR.search(names[0]) and not _COUNTS.search(names[0]):
                yield numbers[0], names[0]


def _calls(script: ParsedScript) -> Iterator[AuditFinding]:
    for node, function in _within(script.module):
        if not isinstance(node, ast.Attribute | ast.Name):
            continue
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        of_torch = isinstance(node, ast.Attribute) and root_name(node) in TORCH_NAMES
        reference = function is not None and _REFERENCE.search(function) is not None
        kinds = {
            Kind.INPUTS: name in _RANDOM and (of_torch or name.endswith("_")),
            Kind.TIMER: name in _TIMERS or (of_torch and name == "Event"),
            Kind.AUTOTUNE: name in _TUNERS,
            Kind.LIBRARY: name in LIBRARY_CALLS and of_torch and not reference,
        }
        for kind in (kind for kind, found in kinds.items() if found):
            yield AuditFinding(kind, script.path, node.lineno, ast.unparse(node))


def _dtypes(script: ParsedScript) -> Iterator[AuditFinding]:
    """A kernel of another dtype than its folder: the source names dtypes, but not that of the inputs.

    An iteration that asks its problem for the dtype names at most that of its sums.
    """
    attributes = (node for node in ast.walk(script.module) if isinstance(node, ast.Attribute))
    if script.problem is None or any(ast.unparse(node) == "problem.input" for node in attributes):
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
        what = f"{', '.join(sorted(narrow))}, where {script.problem} has inputs of {script.problem.input}"
        yield AuditFinding(Kind.DTYPE, script.path, min(narrow.values()), what)


def _within(module: ast.Module) -> Iterator[tuple[ast.AST, str | None]]:
    """Every node, with the name of the outermost function or class around it."""
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


def _without_docstrings(module: ast.Module) -> ast.Module:
    for node in ast.walk(module):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            del node.body[0]  # type: ignore[attr-defined]
    return module
