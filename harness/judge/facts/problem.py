"""A problem: an operator with dtypes, dimensions and scalars, and the only parser of its shape key."""

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Final

from harness.errors import UsageError
from harness.judge.facts.dtypes import (
    ACCUMULATORS,
    DTYPE_BYTES,
    DTYPES,
    FLOATS,
    INTEGER_ACCUMULATORS,
    NARROW_FLOATS,
    TOKENS,
)
from harness.judge.facts.fills import Fill
from harness.judge.facts.operator import OF_KEY, Output
from harness.judge.facts.sizes import Shape, Size, Values, axes, evaluated, names_in, shape_of
from harness.operators import OPERATORS, UNREADABLE, Operator

__all__ = ["ACCUMULATORS", "DTYPES", "DTYPE_BYTES", "MAX_DIMENSION", "OUTPUTS", "Problem", "parse_shape_key"]

# Dtypes of an output. The rounding of an 8-bit float exceeds every limit that could show an error.
OUTPUTS: Final = tuple(token for token in DTYPES if token != "e4m3")
MAX_DIMENSION: Final = (1 << 31) - 1
SYMBOLIC: Final = -1  # a size that is known at the launch

_SUMS: Final = ACCUMULATORS | INTEGER_ACCUMULATORS
_FORM: Final = "<op>_<input><accumulator>[<output>]_<dims>[_<scalar>…], e.g. matmul_bf16fp32_8192x8192x8192"
_SCALAR: Final = re.compile(r"([A-Za-z]+)(-?[0-9][0-9.]*(?:e[-+]?[0-9]+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    ``matmul`` is row-major A[M,K] · B[K,N]; ``linear`` is A[M,K] · W[N,K]ᵀ; both write C[M,N]. ``input``,
    ``accumulator`` and ``output`` are dtype names of torch (``bfloat16``). ``dims`` follows the shape key's order, so
    ``M, N, K = problem.dims``. ``pinned`` are the scalars that differ from the operator's defaults.
    """

    operator: str
    input: str
    accumulator: str
    output: str
    dims: tuple[int, ...]
    pinned: tuple[tuple[str, float], ...] = ()

    @property
    def shape_key(self) -> str:
        def token(table: dict[str, str], dtype: str) -> str:
            return next(token for token, name in table.items() if name == dtype)

        output = "" if self.output == self.input else token(TOKENS, self.output)
        dtypes = token(TOKENS, self.input) + token(_SUMS, self.accumulator) + output
        scalars = "".join(f"_{name}{value:.15g}" for name, value in self.pinned)
        return f"{self.operator}_{dtypes}_{'x'.join(map(str, self.dims))}{scalars}"

    @property
    def scalars(self) -> dict[str, float]:
        """Each scalar of the operator, such as ``eps``."""
        return {**self._operator.scalars, **dict(self.pinned)}

    @property
    def sizes(self) -> Values:
        """The dimensions and scalars by name."""
        return {**self.scalars, **dict(zip(self._operator.dims, self.dims, strict=True))}

    def asked_by(self, function: Callable[..., object]) -> dict[str, float]:
        """The scalars and dimensions that are keywords of a function."""
        asked = (name for name, each in signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY)
        return {name: self.sizes[name] for name in asked if name in self.sizes}

    @property
    def inputs(self) -> tuple[Shape, ...]:
        """Row-major shape of each input."""
        return tuple(shape_of(each.shape, self.sizes) for each in self._operator.inputs.values())

    @property
    def input_dtypes(self) -> tuple[str, ...]:
        return tuple(self._dtype(each.dtype) for each in self._operator.inputs.values())

    @property
    def outputs(self) -> tuple[tuple[Shape, str], ...]:
        """(shape, dtype) of each output, also of those in the memory of an input."""
        found = map(self._operator.written, self._operator.outputs.values())
        return tuple((shape_of(each.shape, self.sizes), self._dtype(each.dtype)) for each in found)

    @property
    def output_shape(self) -> Shape:
        """The shape of the first output."""
        return self.outputs[0][0]

    @property
    def tensors(self) -> tuple[tuple[Shape, str], ...]:
        """(shape, dtype) of a kernel's parameters: the inputs and, last, the outputs with memory of their own."""
        return (*zip(self.inputs, self.input_dtypes, strict=True), *(self.outputs[each] for each in self._own))

    def symbolic_tensors(self, dynamic: Collection[str]) -> tuple[tuple[Shape, str], ...]:
        """``tensors``, with -1 for each size that depends on a dynamic dimension."""
        own = (self._operator.written(self._outputs[each]) for each in self._own)
        texts = (each.shape for each in (*self._operator.inputs.values(), *own))
        open_axes = ([not names_in(axis).isdisjoint(dynamic) for axis in axes(text)] for text in texts)
        return tuple(
            (tuple(SYMBOLIC if opened else size for opened, size in zip(marks, shape, strict=True)), dtype)
            for marks, (shape, dtype) in zip(open_axes, self.tensors, strict=True)
        )

    def static(self, dynamic: Collection[str]) -> "Problem":
        """What is left of the problem without the dynamic dimensions."""
        named = zip(self._operator.dims, self.dims, strict=True)
        return replace(self, dims=tuple(size for name, size in named if name not in dynamic))

    @property
    def dim_names(self) -> tuple[str, ...]:
        return self._operator.dims

    @property
    def places(self) -> tuple[int, ...]:
        """The position in ``tensors`` of each output."""
        names, count = list(self._operator.inputs), len(self._operator.inputs)
        own = {output: count + number for number, output in enumerate(self._own)}
        given = enumerate(self._operator.outputs.values())
        return tuple(names.index(each.inplace) if each.inplace else own[position] for position, each in given)

    @property
    def flops(self) -> int:
        return int(evaluated(self._operator.flops, self.sizes))

    def terms_of(self, output: int) -> int:
        """Products that one element of an output sums (K of a GEMM)."""
        return int(self._value(self._outputs[output].terms))

    def roundings_of(self, output: int) -> int:
        """Roundings to the output's precision between inputs and output, the last one included."""
        return self._outputs[output].roundings

    def is_skewed(self, output: int) -> bool:
        return self._outputs[output].skewed

    def is_uneven(self, output: int) -> bool:
        return self._outputs[output].uneven

    def scale_of(self, output: int) -> float:
        return self._value(self._outputs[output].scale)

    @property
    def scales(self) -> tuple[float, ...]:
        """Standard deviation of each input, or the centre of a positive one; 1 where the fill has none."""
        return tuple(self._value(getattr(fill, "scale", 1.0)) for fill in self.fills)

    @property
    def bytes(self) -> int:
        """Bytes that a launch moves: unless the operator says otherwise, each input and output once."""
        if (said := self._operator.bytes) is not None:
            return int(evaluated(said, self.sizes))
        moved = (*zip(self.inputs, self.input_dtypes, strict=True), *self.outputs)
        return sum(math.prod(shape) * DTYPE_BYTES[dtype] for shape, dtype in moved)

    @property
    def fills(self) -> tuple[Fill, ...]:
        return tuple(each.fill for each in self._operator.inputs.values())

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self._operator.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(self._operator.outputs)

    @property
    def rows(self) -> int | None:
        """The rows that can be computed one by one; None where the operator says of none."""
        axis = self._operator.row_axis
        return None if axis is None else int(self._value(axis))

    @property
    def row_inputs(self) -> tuple[int, ...]:
        """The positions of the inputs with these rows."""
        return tuple(position for position, name in enumerate(self._operator.inputs) if name in self._operator.rows)

    @property
    def checks(self) -> str:
        """What judges a launch beside the reference of random inputs, and how the launches of a block are judged."""
        exact = "exact trial, " if self._operator.fill_exact is not None else ""
        return exact + ("sketch" if self.has_sketch else "rows" if self.rows else "whole outputs")

    @property
    def overwrites(self) -> bool:
        """Whether an output takes the memory of an input."""
        return len(self._own) < len(self._outputs)

    @property
    def hides(self) -> bool:
        """Whether a launch may look at a part of some input alone."""
        return self._operator.unread is not None

    @property
    def has_sketch(self) -> bool:
        """Whether the operator gives a sketch, which reads each output whole at the cost of a pass over the tensors."""
        return self._operator.sketch is not None

    @property
    def _operator(self) -> Operator:
        return OPERATORS[self.operator]

    @property
    def _outputs(self) -> Sequence[Output]:
        return tuple(self._operator.outputs.values())

    @property
    def _own(self) -> tuple[int, ...]:
        """The outputs with memory of their own."""
        return tuple(number for number, each in enumerate(self._outputs) if not each.inplace)

    def _dtype(self, dtype: str) -> str:
        return str(getattr(self, dtype)) if dtype in OF_KEY else dtype

    def _value(self, size: Size) -> float:
        return float(evaluated(size, self.sizes))

    def __str__(self) -> str:
        return self.shape_key


def parse_shape_key(key: str) -> Problem:
    """Parse a shape key. Raises UsageError that names the wrong part."""

    def wrong(reason: str) -> UsageError:
        return UsageError(f"shape key '{key}'{reason}")

    operator, *parts = key.split("_")
    if len(parts) < 2:
        raise wrong(f"{'' if parts else ' is no operator, and'} does not have the form {_FORM}")
    if operator not in OPERATORS:
        if reason := UNREADABLE.get(operator):
            raise UsageError(reason)
        raise wrong(f": unknown operator '{operator}'; known: {', '.join(OPERATORS)}")
    form = OPERATORS[operator]
    dtypes, dims, *scalars = parts
    outputs = (*OUTPUTS, *(token for token in form.dtypes if TOKENS[token] not in FLOATS))
    match = re.fullmatch(f"({'|'.join(form.dtypes)})({'|'.join(_SUMS)})({'|'.join(TOKENS)})?", dtypes)
    if (
        match is None
        or (match[3] and match[3] not in (*form.dtypes, *OUTPUTS))
        or (match[2] in INTEGER_ACCUMULATORS and TOKENS[match[1]] in FLOATS)
    ):
        raise wrong(
            f": unknown dtypes '{dtypes}'; inputs of {operator} are {', '.join(form.dtypes)}, "
            f"accumulators {', '.join(_SUMS)}, outputs {', '.join(outputs)}, as in {_example(form)}"
        )
    sizes = dims.split("x")
    if len(sizes) != len(form.dims) or not all(re.fullmatch("[1-9][0-9]*", size, re.ASCII) for size in sizes):
        raise wrong(f": dimensions '{dims}' are not {'x'.join(form.dims)} in positive integers")
    if any(len(size) > 10 or int(size) > MAX_DIMENSION for size in sizes):
        raise wrong(f": a dimension is larger than {MAX_DIMENSION}")
    numbers = dict(zip(form.dims, map(int, sizes), strict=True))
    for whole, part in form.multiples:
        if numbers[whole] % numbers[part]:
            raise wrong(f": {whole}={numbers[whole]} is no multiple of {part}={numbers[part]}")
    if (match[3] or match[1]) not in outputs:
        raise wrong(f": an output is {', '.join(outputs)}; write it last, as in e4m3fp32bf16")
    source, pinned = TOKENS[match[1]], [_SCALAR.fullmatch(each) for each in scalars]
    if any(each is None or each[1] not in form.scalars for each in pinned):
        known = ", ".join(f"{name}{value:.15g}" for name, value in form.scalars.items())
        raise wrong(f": its scalars are {known}" if known else f": {operator} has no scalars")
    problem = Problem(
        operator=operator,
        input=source,
        accumulator=_SUMS[match[2]],
        output=TOKENS[match[3]] if match[3] else source,
        dims=tuple(numbers.values()),
        pinned=tuple((each[1], float(each[2])) for each in pinned if each is not None),
    )
    # One key for each problem: what follows from the rest is not written.
    given = {name: value for name, value in problem.pinned if value != form.scalars[name]}
    plain = replace(problem, pinned=tuple((name, given[name]) for name in form.scalars if name in given))
    if plain.shape_key != key:
        raise wrong(f" is written {plain.shape_key}")
    try:
        reason = _unmet(problem, form)
    except (ArithmeticError, ValueError) as error:
        reason = f"a size of {operator} cannot be computed: {error}"
    if reason is not None:
        raise wrong(f": {reason}")
    return problem


def _example(form: Operator) -> str:
    return f"{form.dtypes[0]}{'fp32' if TOKENS[form.dtypes[0]] in FLOATS else 'int32'}"


def _unmet(problem: Problem, form: Operator) -> str | None:
    """Why no tensors of this problem can be made; None if they can."""
    values = problem.sizes
    for condition in form.requires:
        if not evaluated(condition, values):
            return f"{form.name} requires {condition}"
    for name, (shape, _) in zip((*form.inputs, *form.outputs), (*_inputs(problem), *problem.outputs), strict=True):
        if any(not str(size).isdigit() or size < 1 for size in shape):
            whole = "; divide with // for a whole number" if any(isinstance(size, float) for size in shape) else ""
            return f"'{name}' of {form.name} has the shape {list(shape)}{whole}"
    for (name, each), (shape, dtype) in zip(form.inputs.items(), _inputs(problem), strict=True):
        if dtype not in each.fill.takes:
            return f"input '{name}' of {form.name} is no {dtype}"
        if (reason := each.fill.unmet(shape, dtype, values)) is not None:
            return f"input '{name}' of {form.name} cannot be filled: {reason}"
    if NARROW_FLOATS & {dtype for _, dtype in problem.outputs}:
        return f"an output of {form.name} is an 8-bit float, which no limit judges"
    return None


def _inputs(problem: Problem) -> list[tuple[Shape, str]]:
    return list(zip(problem.inputs, problem.input_dtypes, strict=True))
