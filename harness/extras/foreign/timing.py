"""What a script times: the spans between two readings of a clock, and the calls in them."""

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeGuard

from harness.extras.foreign.reading import Reading, Scope, argument, is_field, name_of
from harness.judge.breach import root_name
from harness.judge.vocabulary import LIBRARY_CALLS, TORCH_NAMES

CLOCKS: Final = frozenset(
    {"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "default_timer"}
)
# They wait for the GPU, or copy a result from it, which waits too.
WAITS: Final = frozenset({"synchronize", "item", "cpu", "tolist", "numpy", "wait", "block_until_ready"})
BENCHES: Final = frozenset({"do_bench", "do_bench_cudagraph", "bench_kineto"})  # they warm up, wait and clear the cache
COMPILERS: Final = frozenset({"compile", "load_inline", "autotune", "aot_compile"})
_LIBRARY: Final = LIBRARY_CALLS | {"relu", "softmax", "add", "layer_norm"}
_LAUNCHERS: Final = frozenset({"forward", "run", "replay"})
_COOLING: Final = re.compile(r"flush|l2|cold|cache|rotat", re.IGNORECASE)
_WARM: Final = re.compile(r"warm", re.IGNORECASE)
_NO_LAUNCHES: Final = re.compile(r"flush|clear|print|log|tqdm|range|sleep|record|append|zero_|fill_|copy_|empty_cache")


@dataclass(frozen=True)
class ClockedSpan:
    """From one reading of a clock to the next, by line, in one scope; by the host's clock or by events."""

    scope: Scope
    first: int
    last: int
    by_host: bool

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        inside = (node for node in self.scope.nodes if self.first <= getattr(node, "lineno", 0) <= self.last)
        return tuple(
            node for node in inside if not isinstance(node, ast.Call) or not (_is_clock(node) or _is_record(node))
        )

    @cached_property
    def launches(self) -> tuple["ClockedCall", ...]:
        return tuple(ClockedCall(node, self.scope, self) for node in self.nodes if _may_launch(node))

    def is_before(self, scope: Scope, line: int) -> bool:
        """Whether it is certainly over when a line runs."""
        return scope is self.scope and line > self.last and not self.repeated

    @cached_property
    def repeated(self) -> bool:
        """Whether it holds a loop or stands in one."""
        loops = [node for node in self.scope.nodes if isinstance(node, ast.For | ast.While)]
        return any(
            self.first <= loop.lineno <= self.last or loop.lineno <= self.first <= (loop.end_lineno or 0)
            for loop in loops
        )


@dataclass(frozen=True)
class ClockedCall:
    """One timed call or matrix product; ``span`` is None where a library's timer takes the time."""

    node: ast.AST
    scope: Scope
    span: ClockedSpan | None

    @property
    def name(self) -> str:
        """The name of the function; of a triton kernel too, ``kernel[grid](…)``."""
        if not isinstance(self.node, ast.Call):
            return ""
        called = self.node.func
        return name_of(called.value if isinstance(called, ast.Subscript) else called)

    @property
    def line(self) -> int:
        return int(getattr(self.node, "lineno", 0))

    @property
    def operands(self) -> list[ast.expr]:
        if isinstance(self.node, ast.BinOp):
            return [self.node.left, self.node.right]
        return (
            [*self.node.args, *(each.value for each in self.node.keywords)] if isinstance(self.node, ast.Call) else []
        )

    @property
    def is_library(self) -> bool:
        if isinstance(self.node, ast.BinOp):
            return True
        assert isinstance(self.node, ast.Call)
        return isinstance(self.node.func, ast.Attribute) and _is_library(self.node.func)


@dataclass(frozen=True)
class Timing:
    reading: Reading

    @cached_property
    def spans(self) -> tuple[ClockedSpan, ...]:
        found = (span for scope in self.reading.scopes for span in (*_host_spans(scope), *_event_spans(scope)))
        return tuple(span for span in found if span.launches)

    @cached_property
    def calls(self) -> tuple[ClockedCall, ...]:
        """The timed calls; where they run what they are given, or a function of the script, the calls in that."""
        launches = [(call, span) for span in self.spans for call in span.launches]
        found = [each for call, span in launches for each in self.given(call.name, span) or self.own(call) or [call]]
        for name in BENCHES:
            for bench, scope in self.reading.call_sites.get(name, []):
                found += self._inside(bench.args[0], scope, None) if bench.args else ()
        return tuple(found)

    def waits(self, name: str, depth: int = 3) -> bool:
        """Whether a function of the script waits for the GPU."""
        function = self.reading.functions.get(name)
        if function is None or depth == 0:
            return False
        names = {name_of(call.func) for call in function.calls}
        return bool(names & (WAITS | BENCHES)) or any(self.waits(each, depth - 1) for each in names - {name})

    def is_warm(self, call: ClockedCall) -> bool:
        """Whether the script runs a timed function before, or in another function, outside what it times."""
        span = call.span
        if span is None:
            return True
        words = [*_identifiers(span.scope), *(each.arg or "" for each in getattr(call.node, "keywords", ()))]
        if any(map(_WARM.search, words)):
            return True
        sites = self.reading.call_sites.get(span.scope.name or "", [])
        if any(isinstance(node, ast.Expr) and node.value is site for site, where in sites for node in where.nodes):
            return True  # the whole measurement runs once for nothing
        names = {call.name, *(each.name for each in self.given(call.name, span))} - {""}
        return any(
            name in names
            and not span.is_before(where, line)
            and not any(each.scope is where and each.first <= line <= each.last for each in self.spans)
            for name, where, line in self._all_calls(span.scope, call.name)
        )

    def is_cooled(self, scope: Scope) -> bool:
        """Whether the cache is cleared, or the inputs change, between two launches."""
        called = {name_of(call.func) for call in scope.calls}
        words = set(_identifiers(scope)) - {"empty_cache", "cached", "cache"}
        return bool(called & {"zero_", "fill_"}) or any(_COOLING.search(word) for word in words)

    def _all_calls(self, scope: Scope, name: str) -> Iterator[tuple[str, Scope, int]]:
        for where in self.reading.scopes:
            if where is not scope and name in scope.parameters and name in where.parameters:
                continue  # another function's parameter of this name
            for node in where.nodes:
                if isinstance(node, ast.Call) and _root(node.func) not in ("T", "tl"):  # such as T.gemm, in a kernel
                    yield ClockedCall(node, where, None).name, where, node.lineno

    def given(self, name: str, span: ClockedSpan) -> list[ClockedCall]:
        """The calls in the functions that a span's scope is given for a parameter."""
        scope = span.scope
        found: list[ClockedCall] = []
        if name in scope.parameters and scope.name:
            position = scope.parameters.index(name)
            for site, where in self.reading.call_sites.get(scope.name, []):
                value = argument(site, position, name)
                if value is not None:
                    found += self._inside(value, where, span)
        return found

    def own(self, call: ClockedCall) -> list[ClockedCall]:
        """The calls in a function or method of the script, if a call runs one and gives it no tensor."""
        function = self.reading.functions.get(call.name)
        if function is None or function is call.scope or getattr(function.node, "decorator_list", None):
            return []  # what is decorated may be a kernel itself
        if any(self.reading.tensor(each, call.scope) for each in call.operands):
            return []
        inner = (ClockedCall(node, function, call.span) for node in function.nodes if _may_launch(node))
        return [each for each in inner if each.name not in self.reading.functions]

    def _inside(self, value: ast.expr, scope: Scope, span: ClockedSpan | None) -> Iterator[ClockedCall]:
        """The calls of a function that is given by name or written as a lambda."""
        if isinstance(value, ast.Lambda):
            yield from (ClockedCall(node, scope, span) for node in ast.walk(value) if _may_launch(node))
        elif isinstance(value, ast.Name) and value.id in self.reading.functions:
            function = self.reading.functions[value.id]
            yield from (ClockedCall(node, function, span) for node in function.nodes if _may_launch(node))


def _host_spans(scope: Scope) -> Iterator[ClockedSpan]:
    readings: dict[str, list[int]] = {}
    for node in scope.nodes:
        if isinstance(node, ast.Assign) and _is_clock(node.value):
            for target in node.targets:
                readings.setdefault(ast.unparse(target), []).append(node.lineno)
    for node in scope.nodes:
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)):
            continue
        starts = [line for line in readings.get(ast.unparse(node.right), []) if line <= node.lineno]
        ends = [line for line in readings.get(ast.unparse(node.left), []) if line <= node.lineno]
        if _is_clock(node.left):
            ends = [node.lineno]
        if starts and ends and max(ends) > min(starts):
            yield ClockedSpan(scope, max(line for line in starts if line < max(ends)), max(ends), by_host=True)


def _event_spans(scope: Scope) -> Iterator[ClockedSpan]:
    """From each record of one event to the next of another; a script may use its two again and again."""
    start: ast.Call | None = None
    for call in filter(_is_record, scope.calls):
        if start is None or ast.unparse(start.func) == ast.unparse(call.func):
            start = call
            continue
        if start.lineno < call.lineno:
            yield ClockedSpan(scope, start.lineno, call.lineno, by_host=False)
        start = None


def _is_clock(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or name_of(node.func) not in CLOCKS:
        return False
    return isinstance(node.func, ast.Name) or _root(node.func) in ("time", "timeit")


def _is_record(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "record"


def _may_launch(node: ast.AST) -> bool:
    """Whether a call may start a kernel: the library's, a function's of the script, or a variable's."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    if not isinstance(node, ast.Call) or _is_clock(node) or _NO_LAUNCHES.search(ast.unparse(node.func)):
        return False
    if isinstance(node.func, ast.Subscript):
        return True
    name = name_of(node.func)
    if isinstance(node.func, ast.Name):
        return not hasattr(builtins, name) and name not in WAITS | COMPILERS | BENCHES
    if not isinstance(node.func, ast.Attribute):
        return False
    return _is_library(node.func) or name in _LAUNCHERS or is_field(node.func)


def _is_library(function: ast.Attribute) -> bool:
    return root_name(function) in TORCH_NAMES and function.attr in _LIBRARY


def _root(node: ast.expr) -> str | None:
    return root_name(node) if isinstance(node, ast.Attribute) else None


def _identifiers(scope: Scope) -> Iterator[str]:
    yield from (scope.name or "", *scope.parameters)
    yield from (name_of(node) for node in scope.nodes if isinstance(node, ast.Name | ast.Attribute))
