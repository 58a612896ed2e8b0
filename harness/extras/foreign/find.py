"""The kernel of a script: loaded, found and traced, in the confined process that will launch it.

The search looks first for a compiled kernel of the module, then for a PrimFunc, then for a ``@tilelang.jit`` function.
After these it tries a function that returns what it compiles, then one that returns its PrimFunc. It calls functions
with the problem's dimensions, by the names of their parameters, and otherwise as the script itself calls them. It stops
at the first ambiguous form: a later form may be another kernel than the script runs.
"""

import ast
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import tilelang
import torch
from tilelang import tvm
from tilelang.autotuner.tuner import AutoTuneImpl
from tilelang.engine.lower import extrac_params
from tilelang.jit import JITImpl

from harness.catalog import gpus
from harness.extras import stand_in
from harness.extras.foreign.calls import UNKNOWN, KernelNotFound, ScriptSource, Values, flags_of, is_last, last_of
from harness.judge.child.contestant import load
from harness.judge.child.kernel import target_of
from harness.judge.facts.problem import SYMBOLIC, Problem, parse_shape_key
from harness.judge.facts.program import Program
from harness.judge.facts.signature import Signature, mismatch
from harness.operators import OPERATORS

INPUT_DTYPES: Final = frozenset({"dtype", "in_dtype", "input_dtype", "dtype_in", "ab_dtype"})
ACCUMULATOR_DTYPES: Final = frozenset({"accum_dtype", "acc_dtype", "accumulator_dtype", "dtype_acc"})
OUTPUT_DTYPES: Final = frozenset({"out_dtype", "output_dtype", "dtype_out", "c_dtype"})
FUNCTIONS: Final = (FunctionType, functools._lru_cache_wrapper)


@dataclass(frozen=True, slots=True)
class FoundKernel:
    """A program that the script would run, and its name in the script."""

    name: str
    program: Program

    @property
    def signature(self) -> Signature:
        parameters = extrac_params(self.program.prim_func)
        sizes = ([int(size) if str(size).isdigit() else SYMBOLIC for size in each.shape] for each in parameters)
        return tuple((tuple(size), str(each.dtype)) for size, each in zip(sizes, parameters, strict=True))

    def same_as(self, other: "FoundKernel") -> bool:
        mine, its = self.program, other.program
        options = (mine.pass_configs, mine.compile_flags) == (its.pass_configs, its.compile_flags)
        return options and bool(mine.prim_func.same_as(its.prim_func))


def program_of(*, script: str, tree: str, sha256: str, shape: str, gpu: str) -> Program:
    """Load a script, as another would import it, and return its kernel; raises KernelNotFound."""
    path = Path(script)
    text = path.read_bytes()
    if hashlib.sha256(text).hexdigest() != sha256:
        raise KernelNotFound("it changed before it was judged")
    sys.path[:0] = [str(path.parent), tree]
    sys.argv = [script]
    return found_in(load(path), ast.parse(text), parse_shape_key(shape), target_of(gpus.find(gpu)))


def program_without_gpu(*, gpu: str, **script: str) -> Program:
    """The same on a machine without a GPU: a stand-in serves what the script does while it is loaded."""
    row = gpus.find(gpu)
    stand_in.stand_in_for_cuda(row.arch, row.sms)
    stand_in.stand_in_for_kernels([], stand_in.pinned)
    with target_of(row), stand_in.OnCpu():
        return program_of(gpu=gpu, **script)


def found_in(module: ModuleType, source: ast.Module, problem: Problem, target: Any) -> Program:
    """The one program of a loaded module that computes the problem; raises KernelNotFound."""
    search = KernelSearch(module, source, problem, target)
    others: list[FoundKernel] = []
    for attempts in search.forms():
        found = _distinct(attempts)
        fitting = [each for each in found if mismatch(each.signature, problem) is None]
        if len(fitting) == 1:
            return fitting[0].program
        if fitting:
            names = ", ".join(each.name for each in fitting)
            raise KernelNotFound(f"it has several kernels, and nothing says which: {names}")
        others += found
        if search.reasons:
            break
    if not search.reasons and len(others) == 1 and len(others[0].signature) == len(problem.tensors):
        return others[0].program  # the judge says how it differs from the problem
    reasons = [*search.reasons, *(f"{each.name}: {mismatch(each.signature, problem)}" for each in others)]
    raise KernelNotFound("; ".join(reasons) or "no PrimFunc, no compiled kernel, and no function that gives one")


class KernelSearch:
    """What a module holds that may be its kernel; ``reasons`` say why a candidate is none."""

    def __init__(self, module: ModuleType, source: ast.Module, problem: Problem, target: Any) -> None:
        self.names = dict(vars(module))
        self.source = ScriptSource(source, self.names)
        self.problem = problem
        self.target = target
        dims = OPERATORS[problem.operator].dims
        self.outputs = len(problem.tensors) - len(problem.inputs)  # with memory of their own
        self.dims = {name.lower(): size for name, size in zip(dims, problem.dims, strict=True)}
        self.reasons: list[str] = []

    def forms(self) -> Iterator[Iterator[FoundKernel]]:
        """The kernels of each form, in the order of the search."""
        yield self._attempts(self.names, tilelang.JITKernel, self._of_compiled)
        yield self._attempts(self.names, tvm.tirx.PrimFunc, self._of_prim_func)
        # Lazy and eager functions; one that tunes itself as the script calls it without tuning.
        yield self._attempts(self.names, (JITImpl, AutoTuneImpl), self._of_jit)
        yield self._attempts(self.source.makers(), FUNCTIONS, self._of_function)
        yield self._attempts(self.source.factories(), FUNCTIONS, self._of_function)

    def _attempts(
        self, names: Iterable[str], kind: Any, make: Callable[[str, Any], FoundKernel]
    ) -> Iterator[FoundKernel]:
        for name in names:
            if not isinstance(self.names.get(name), kind):
                continue
            try:
                with self.target:
                    found = make(name, self.names[name])
                if any(SYMBOLIC in shape for shape, _ in found.signature):
                    raise KernelNotFound("its shapes are known when it is called only")
            except KernelNotFound as error:
                self.reasons.append(f"{name}: {error}")
            else:
                yield found

    def _of_prim_func(self, name: str, prim_func: Any) -> FoundKernel:
        pass_configs, flags = self.source.options(name, len(prim_func.params), self.outputs)
        return FoundKernel(name, Program(prim_func, pass_configs, flags))

    def _of_jit(self, name: str, function: Any) -> FoundKernel:
        tuned: frozenset[str] = frozenset()
        if isinstance(function, AutoTuneImpl):
            tuned, function = _levers(function), function.jit_impl
        tensors: list[str] = list(function.func.tensor_args)  # none for a lazy function
        given = len(self.problem.tensors)
        inputs = len(self.problem.inputs)
        if tensors and len(tensors) not in (given, inputs):  # one that makes its outputs takes the inputs alone
            raise KernelNotFound(f"it takes {len(tensors)} tensors, {self.problem} has {given}")
        arguments = self._arguments(name, function.signature, tensors, tuned)
        for tensor, (shape, dtype) in zip(tensors, self.problem.tensors, strict=False):
            arguments[tensor] = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
        return self._with_options(name, function.get_tir(**arguments), function)

    def _of_function(self, name: str, function: Any) -> FoundKernel:
        value = function(**self._arguments(name, inspect.signature(function), ()))
        if isinstance(value, tilelang.JITKernel):
            return self._of_compiled(name, value)
        if not isinstance(value, tvm.tirx.PrimFunc):
            raise KernelNotFound(f"it returned {type(value).__name__}, no kernel")
        return self._of_prim_func(name, value)

    def _of_compiled(self, name: str, kernel: Any) -> FoundKernel:
        """The program behind a compiled kernel; the judge compiles it again, for its own GPU and given outputs."""
        return self._with_options(name, kernel.prim_func, kernel)

    def _with_options(self, name: str, prim_func: Any, compiled: Any) -> FoundKernel:
        """A program with the options of a compiled kernel or of a ``@tilelang.jit`` function."""
        if not is_last(compiled.out_idx, len(prim_func.params), self.outputs):
            raise KernelNotFound(f"its output is not {last_of(self.outputs)}")
        program = Program(prim_func, dict(compiled.pass_configs or {}), flags_of(compiled.compile_flags))
        return FoundKernel(name, program)

    def _arguments(
        self, name: str, signature: inspect.Signature, tensors: Sequence[str], tuned: frozenset[str] = frozenset()
    ) -> Values:
        """Values for a function's parameters but the tensors: dimensions by name, the rest as the script calls it.

        Of a function that tunes itself only the calls count that give one of the ``tuned`` parameters.
        """
        fixed: Values = {}
        free: list[inspect.Parameter] = []
        for each in signature.parameters.values():
            if each.name in tensors or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                continue
            if each.name.lower() in self.dims:
                fixed[each.name] = self.dims[each.name.lower()]
            else:
                free.append(each)
        calls = [call for call in self.source.calls(name, signature) if not tuned or tuned & call.keys()]
        if tuned and not calls:
            raise KernelNotFound("it is tuned when it runs")
        mine = [call for call in calls if all(call.get(dim, size) in (size, UNKNOWN) for dim, size in fixed.items())]
        ways: list[Values] = []
        for call in mine or calls or [{}]:
            way = {each.name: self._value(each, call) for each in free}
            if way not in ways:
                ways.append(way)
        if len(ways) > 1:
            raise KernelNotFound(f"it is called in {len(ways)} ways, and nothing says which")
        return fixed | ways[0]

    def _value(self, parameter: inspect.Parameter, call: Mapping[str, Any]) -> Any:
        name = parameter.name
        if name in call:
            if call[name] is UNKNOWN:
                raise KernelNotFound(f"what it is given as '{name}' is decided when it runs")
            return call[name]
        if parameter.default is not parameter.empty:
            return parameter.default
        for constant in (name, name.upper(), name.lower()):
            if isinstance(self.names.get(constant), bool | int | float | str):
                return self.names[constant]
        for names, dtype in (
            (INPUT_DTYPES, self.problem.input),
            (ACCUMULATOR_DTYPES, self.problem.accumulator),
            (OUTPUT_DTYPES, self.problem.output),
        ):
            if name.lower() in names:
                return dtype
        raise KernelNotFound(f"nothing says what '{name}' is")


def _levers(function: Any) -> frozenset[str]:
    """The parameters that a function tunes; TileLang does not tune where a call gives one of them."""
    configs = function.configs
    if callable(configs):
        try:
            configs = configs()
        except TypeError:  # it takes the tuner's arguments, which only a tuning has
            raise KernelNotFound("what it tunes depends on the arguments of the call") from None
    return frozenset(configs[0] if isinstance(configs, list) and configs else configs or ())


def _distinct(found: Iterator[FoundKernel]) -> list[FoundKernel]:
    kept: list[FoundKernel] = []
    for each in found:
        if not any(each.same_as(other) for other in kept):
            kept.append(each)
    return kept
