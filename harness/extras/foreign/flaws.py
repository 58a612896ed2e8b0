"""What makes a script's own figures or its own verdict wrong, read from its syntax tree."""

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from harness.catalog import gpus
from harness.extras.foreign.finding import Kind
from harness.extras.foreign.reading import ForeignTensor, Reading, Scope, name_of, texts
from harness.extras.foreign.timing import BENCHES, COMPILERS, WAITS, ClockedCall, ClockedSpan, Timing
from harness.judge.facts.problem import Problem

Found = Iterator[tuple[Kind, int, str]]  # kind, line, and what

L2_BYTES: Final = gpus.find("h200").l2_mib << 20  # smaller inputs stay in the cache of most GPUs
ERROR: Final = re.compile(r"err|diff|delta|(?<!l)dist(?!rib)", re.IGNORECASE)
_COMPARISONS: Final = frozenset(
    {"allclose", "isclose", "equal", "array_equal", "assert_close", "assert_allclose", "assert_array_equal"}
    | {"assert_almost_equal", "assert_array_almost_equal", "torch_assert_close", "assert_similar", "calc_diff"}
)
_ANSWERS: Final = frozenset({"allclose", "isclose", "equal", "array_equal"})  # their result is the verdict
_CHECKS: Final = re.compile(r"assert|verif|check|compar|valid|similar|correct|diff|cos_sim", re.IGNORECASE)
_KERNEL: Final = re.compile(
    r"(?!build|make|get|fetch|load|create|compile)([a-z]\w*_)?(kernel|gemm|matmul|attention|linear|conv|model|forward)(_\w+)?"
)
_PASSED: Final = re.compile(r"\bPASS(ED)?\b|(?i:\b(all|tests?|checks?|results?)\b.*\b(pass(ed)?|match(es)?|correct)\b)")
_TIMES: Final = re.compile(r"time|elapsed|latenc|duration|_ms\b|_us\b|samples|\bms\b", re.IGNORECASE)
_MIDDLES: Final = frozenset({"median", "mean", "quantile", "quantiles", "percentile", "average", "fmean", "sum", "std"})
_WIDE: Final = frozenset({"float32", "float64"})
_FLOPS: Final = re.compile(r"flop", re.IGNORECASE)
_CONVERSIONS: Final = frozenset({"clone", "float", "double", "half", "cpu", "detach", "to", "contiguous", "numpy"})
_WIDENING: Final = frozenset({"float", "double"})
_WIDE_TYPES: Final = frozenset({"torch.float", "torch.float32", "torch.float64", "torch.double"})


@dataclass(frozen=True)
class Flaws:
    """The checks of one script; ``problem`` is that of its path, of the caller, or a guess."""

    reading: Reading
    problem: Problem | None
    text: str

    def all(self) -> Found:
        time = (self._unsynchronised, self._cold, self._compiling, self._constant, self._cached, self._unequal)
        verdict = (self._minimum, self._itself, self._unused, self._blind, self._unproved, self._flops)
        checks: Iterable[Callable[[], Found]] = (*time, *verdict)
        for check in checks:
            yield from check()

    @cached_property
    def timing(self) -> Timing:
        return Timing(self.reading)

    @cached_property
    def _on_gpu(self) -> bool:
        return re.search(r"cuda|triton|threads", self.text) is not None

    @cached_property
    def comparisons(self) -> list[tuple[ast.Call, Scope]]:
        return [each for name in sorted(_COMPARISONS) for each in self.reading.call_sites.get(name, [])]

    # Time

    def _unsynchronised(self) -> Found:
        for span in self.timing.spans:
            launches = [each for each in span.launches if self._is_kernel(each) and not self._waits(each, span)]
            waits = [node.lineno for node in span.nodes if isinstance(node, ast.Call) and self._is_wait(node)]
            if self._on_gpu and span.by_host and launches and max([0, *waits]) < max(each.line for each in launches):
                what = f"{_shown(launches[0].node)} may still run when the clock is read"
                yield Kind.UNSYNCHRONISED, span.last, what

    def _waits(self, call: ClockedCall, span: ClockedSpan) -> bool:
        given = self.timing.given(call.name, span)
        return self.timing.waits(call.name) or any(
            self.timing.waits(each.name) or self._is_wait(each.node) for each in given
        )

    def _is_wait(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and (name_of(node.func) in WAITS or self.timing.waits(name_of(node.func)))

    def _cold(self) -> Found:
        for span in self.timing.spans:
            mine = (each for each in span.launches if not each.is_library and self._is_kernel(each))
            cold = [each for each in mine if not self.timing.is_warm(each)]
            if cold and not (span.repeated and self._middle(span.scope)):
                yield Kind.COLD, span.first, f"the first call of {_shown(cold[0].node)} is timed"
        for name in BENCHES:
            for call, scope in self.reading.call_sites.get(name, []):
                warm_up = next((each.value for each in call.keywords if each.arg in ("warmup", "n_warmup")), None)
                if warm_up is not None and self.reading.value(warm_up, scope) == 0:
                    yield Kind.COLD, call.lineno, ast.unparse(call)

    def _is_kernel(self, call: ClockedCall) -> bool:
        """Whether a call is likely a kernel's: by its tensors, by its name, or since the function is given one."""
        if call.is_library or self._tensors(call.operands, call.scope):
            return True
        values = [self.reading.value(each, call.scope) for each in call.operands]
        if call.name in call.scope.parameters and (not values or None in values):
            given = self.timing.given(call.name, call.span) if call.span is not None else []
            return not given or any(self._is_kernel(each) for each in given)
        if own := self.timing.own(call):
            return any(self._is_kernel(each) for each in own)
        return None in values and _KERNEL.fullmatch(call.name) is not None

    def _compiling(self) -> Found:
        for span in self.timing.spans:
            made: dict[str, ast.Call] = {}
            for node in span.nodes:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                    made |= {each.id: node.value for each in node.targets if isinstance(each, ast.Name)}
            called = {call.name for call in span.launches}
            compiled = [made[name] for name in made if name in called]
            compiled += [node for node in span.nodes if isinstance(node, ast.Call) and _compiles(node)]
            if compiled:
                yield Kind.COMPILATION, compiled[0].lineno, f"{_shown(compiled[0])} between two readings of the clock"

    def _cached(self) -> Found:
        for call in self.timing.calls:
            span = call.span
            if not self._on_gpu or span is None or not span.repeated or self.timing.is_cooled(span.scope):
                continue
            if not all(isinstance(each, ast.Name) for each in call.operands if not _is_plain(each)):
                continue  # an index may be another in each turn
            sizes = [each.bytes for each in self._tensors(call.operands, call.scope)]
            total = self.problem.bytes if self.problem is not None else L2_BYTES + 1
            if sizes and None not in sizes:
                total = sum(size or 0 for size in sizes)
            if total <= L2_BYTES and self._is_kernel(call):
                what = f"{_shown(call.node)} reads the same {total / 2**20:.3g} MiB each time, from the L2 cache"
                yield Kind.CACHED, call.line, what

    def _unequal(self) -> Found:
        own = {dtype for call in self.timing.calls if not call.is_library for dtype in self._dtypes(call)}
        for call in (each for each in self.timing.calls if each.is_library):
            widened = [each for each in call.operands if _widens(each)]
            if widened:
                yield Kind.BASELINE, call.line, f"{_shown(call.node)} converts its inputs while it is timed"
            elif own and not own & _WIDE and self._dtypes(call) and self._dtypes(call) <= _WIDE:
                what = f"{_shown(call.node)} has {_listed(self._dtypes(call))}, the kernel {_listed(own)}"
                yield Kind.BASELINE, call.line, what

    def _minimum(self) -> Found:
        for scope in self.reading.scopes:
            for call in scope.calls:
                name = name_of(call.func)
                mode = next((each.value for each in call.keywords if each.arg == "return_mode"), None)
                if name in BENCHES and isinstance(mode, ast.Constant) and mode.value == "min":
                    yield Kind.MINIMUM, call.lineno, ast.unparse(mode)
                elif name == "min" and self._are_times(call, scope) and not self._middle(scope):
                    yield Kind.MINIMUM, call.lineno, _shown(call)
            for node in scope.nodes:
                if isinstance(node, ast.Subscript) and _is_first_sorted(node) and not self._middle(scope):
                    yield Kind.MINIMUM, node.lineno, ast.unparse(node)

    def _are_times(self, call: ast.Call, scope: Scope) -> bool:
        """Whether ``min(…)`` is of times: by name, or since the list is filled with what a clock says."""
        operands = [*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
        if not all(isinstance(each, ast.Name | ast.Attribute | ast.Subscript) for each in operands):
            return False
        if any(_TIMES.search(ast.unparse(each)) for each in operands):
            return True
        names = {ast.unparse(each) for each in operands}
        filled = (each for each in scope.calls if isinstance(each.func, ast.Attribute) and each.func.attr == "append")
        of_clocks = (each for each in filled if re.search(r"elapsed_time|perf_counter|time\(", ast.unparse(each)))
        return any(ast.unparse(each.func.value) in names for each in of_clocks if isinstance(each.func, ast.Attribute))

    def _middle(self, scope: Scope) -> bool:
        """Whether the scope, or the module, also tells a mean or a median."""
        called = {name_of(call.func) for where in (scope, self.reading.scopes[0]) for call in where.calls}
        return bool(called & _MIDDLES)

    # Inputs

    def _constant(self) -> Found:
        for call in self.timing.calls:
            if (makers := self._only_constants(call.operands, call.scope)) is not None:
                yield Kind.CONSTANT, call.line, f"{_shown(call.node)} is timed on {makers}"

    def _only_constants(self, operands: list[ast.expr], scope: Scope) -> str | None:
        """The makers of some tensors if all are filled with one value; None if not, or if the source does not tell."""
        told = [each for each in operands if not _is_plain(each)]
        tensors = [self.reading.tensor(each, scope) for each in told]
        if not tensors or any(each is None or each.fill != "constant" for each in tensors):
            return None
        if any(self._is_written(each, scope) for each in told):
            return None
        makers = list(dict.fromkeys(each.maker for each in tensors if each is not None))
        inputs = [maker for maker in makers if not maker.startswith("torch.empty")]
        return _listed(inputs) if inputs else _listed(makers) if len(tensors) > 2 else None

    def _is_written(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a tensor may be the output of a call that also takes real data."""
        others = [call for call in scope.calls if any(ast.unparse(each) == ast.unparse(node) for each in call.args)]
        taken = [(call, [self.reading.tensor(each, scope) for each in call.args]) for call in others]
        return isinstance(node, ast.Name) and any(
            any(each is not None and each.fill != "constant" for each in tensors)
            or (ast.unparse(call.args[-1]) == node.id and tensors.count(None) > 1)
            for call, tensors in taken
        )

    def _tensors(self, operands: Iterable[ast.expr], scope: Scope) -> list[ForeignTensor]:
        made = (self.reading.tensor(each, scope) for each in operands)
        return [each for each in made if each is not None]

    def _dtypes(self, call: ClockedCall) -> set[str]:
        tensors = self._tensors(call.operands, call.scope)
        return {each.dtype for each in tensors if each.dtype is not None}

    # The verdict

    def _itself(self) -> Found:
        sound, found = 0, []
        for call, scope in self.comparisons:
            if len(call.args) < 2:
                continue
            left, right = (self._source(each, scope) for each in call.args[:2])
            if left == right:
                found.append((Kind.ITSELF, call.lineno, f"both sides of {_shown(call)} are {left[:60]}"))
            else:
                sound += 1
        if not sound:
            yield from found
        for name in ("abs", "norm"):
            for call, _ in self.reading.call_sites.get(name, []):
                parts = [*call.args[:1], *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
                differences = (each for each in parts if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub))
                if any(ast.unparse(each.left) == ast.unparse(each.right) for each in differences):
                    yield Kind.ITSELF, call.lineno, _shown(call)

    def _source(self, node: ast.expr, scope: Scope) -> str:
        """What an operand is made of: the call behind its names, without conversions and copies."""
        for _ in range(8):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CONVERSIONS:
                node = node.func.value
                continue
            meanings = self.reading.meanings(node.id, scope) if isinstance(node, ast.Name) else []
            if len(meanings) != 1 or isinstance(meanings[0][0], ast.Subscript):
                break
            node, scope = meanings[0]
        return ast.unparse(node)

    def _unused(self) -> Found:
        for scope in self.reading.scopes:
            loaded = {each.id for each in scope.nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
            for node in scope.nodes:
                value = node.value if isinstance(node, ast.Expr | ast.Assign) else None
                if not isinstance(value, ast.Call) or name_of(value.func) not in _ANSWERS or len(value.args) < 2:
                    continue
                names = {each.id for each in getattr(node, "targets", []) if isinstance(each, ast.Name)}
                if isinstance(node, ast.Expr) or (names and not names & loaded):
                    yield Kind.UNUSED, value.lineno, _shown(value)

    def _blind(self) -> Found:
        for call, scope in self.comparisons:
            for operand in call.args[:2]:
                source, where = operand, scope
                meanings = self.reading.meanings(operand.id, scope) if isinstance(operand, ast.Name) else []
                if len(meanings) == 1:
                    source, where = meanings[0]
                if not isinstance(source, ast.Call | ast.BinOp) or self.reading.tensor(source, where) is not None:
                    continue
                inputs = [source.left, source.right] if isinstance(source, ast.BinOp) else source.args
                makers = self._only_constants(inputs, where)
                if makers is not None:
                    yield Kind.BLIND, call.lineno, f"{_shown(source)} is compared on {makers}"
                    break

    def _unproved(self) -> Found:
        # A function that compares by its name; one of the script itself is read anyway.
        others = self.reading.call_sites.keys() - self.reading.functions.keys()
        if self.comparisons or any(_CHECKS.search(name) for name in others):
            return
        for node in (node for scope in self.reading.scopes for node in scope.nodes):
            if isinstance(node, ast.Assert) or (isinstance(node, ast.Compare) and ERROR.search(ast.unparse(node))):
                return
        for name in ("print", "info", "echo", "write"):
            for call, _ in self.reading.call_sites.get(name, []):
                said = next(filter(_PASSED.search, texts(ast.walk(call))), None)
                if said is not None:
                    yield Kind.UNPROVED, call.lineno, f"{said.strip()!r} is printed, and nothing is compared"

    def _flops(self) -> Found:
        assigned = [item for scope in self.reading.scopes for item in scope.assigned.items()]
        for name, value in ((name, value) for name, values in assigned for value in values if _FLOPS.search(name)):
            if _is_miscounted(value):
                yield Kind.FLOPS, value.lineno, f"{name} = {_shown(value)}, not 2 * M * N * K"
        named = {id(value) for _, values in assigned for value in values}
        for rate in (each for scope in self.reading.scopes for each in _rates(scope) if id(each) not in named):
            if _is_miscounted(rate):
                yield Kind.FLOPS, rate.lineno, f"{_shown(rate)}, not of 2 * M * N * K"


def _compiles(call: ast.Call) -> bool:
    return name_of(call.func) in COMPILERS and ast.unparse(call.func) != "re.compile"


def _is_plain(node: ast.expr) -> bool:
    """An operand that is no tensor: a number, a text, a flag."""
    return isinstance(node, ast.Constant | ast.UnaryOp)


def _widens(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    values = [ast.unparse(each) for each in (*node.args, *(each.value for each in node.keywords))]
    return node.func.attr in _WIDENING or (node.func.attr in ("to", "type") and not _WIDE_TYPES.isdisjoint(values))


def _is_first_sorted(node: ast.Subscript) -> bool:
    """Whether it is ``sorted(times)[0]``."""
    if not isinstance(node.slice, ast.Constant) or node.slice.value != 0 or not isinstance(node.value, ast.Call):
        return False
    return name_of(node.value.func) == "sorted" and _TIMES.search(ast.unparse(node)) is not None


def _rates(scope: Scope) -> Iterator[ast.BinOp]:
    """The products and quotients that divide by a time, each as a whole."""
    products = [node for node in scope.nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)]
    parts = {id(part) for each in products for part in (each.left, each.right)}
    for each in products:
        below = (part.right for part in ast.walk(each) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div))
        if id(each) not in parts and any(_TIMES.search(ast.unparse(part)) for part in below):
            yield each


def _is_miscounted(value: ast.expr) -> bool:
    """Whether a product of M, N and K counts other than two operations for each, whatever the unit of ten."""
    names, coefficient = _factors(value)
    return sorted(each.upper() for each in names) == ["K", "M", "N"] and not math.isclose(_mantissa(coefficient), 2)


def _factors(node: ast.expr) -> tuple[list[str], float]:
    """The names that a product multiplies, and its coefficient; names that it divides by are left out."""
    if isinstance(node, ast.Name):
        return [node.id], 1.0
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return [], float(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        (left, one), (right, other) = _factors(node.left), _factors(node.right)
        return left + right, one * other
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        (names, coefficient), (below, divisor) = _factors(node.left), _factors(node.right)
        return names, coefficient if below or not divisor else coefficient / divisor
    return ["?"], 1.0


def _mantissa(number: float) -> float:
    """A number without its power of ten, so that units do not count."""
    return round(number / 10 ** math.floor(math.log10(number)), 9) if number > 0 and math.isfinite(number) else 0.0


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 48 else f"{text[:45]}..."


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))
