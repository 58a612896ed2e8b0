"""A problem: an operator with dtypes and dimensions, and the only parser of its shape key."""

import math
import re
from dataclasses import dataclass
from typing import Final

from harness.errors import UsageError
from harness.judge.facts.operator import FACTOR_DTYPE
from harness.operators import OPERATORS, Operator

# Token in a shape key -> dtype name of torch and TileLang.
DTYPES: Final = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "f32": "float32",
    "e4m3": "float8_e4m3fn",
}
# Dtypes of an output. The rounding of an 8-bit output exceeds every limit that could show an error.
OUTPUTS: Final = tuple(token for token in DTYPES if token != "e4m3")
ACCUMULATORS: Final = {"fp32": "float32"}
DTYPE_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1}

MAX_DIMENSION: Final = 1 << 24

_FORM: Final = "<op>_<input><accumulator>[<output>]_<dims>, e.g. matmul_bf16fp32_8192x8192x8192"
_DTYPES: Final = re.compile(
    rf"(?P<input>{'|'.join(DTYPES)})(?P<accumulator>{'|'.join(ACCUMULATORS)})(?P<output>{'|'.join(DTYPES)})?"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    ``matmul`` is row-major A[M,K] · B[K,N]; ``linear`` is A[M,K] · W[N,K]ᵀ; both write C[M,N]. ``input``,
    ``accumulator`` and ``output`` are dtype names of torch (``bfloat16``). ``dims`` follows the shape key's order, so
    ``M, N, K = problem.dims``. Factors, such as the scales of 8-bit inputs, are always float32.
    """

    operator: str
    input: str
    accumulator: str
    output: str
    dims: tuple[int, ...]

    @property
    def shape_key(self) -> str:
        def token(table: dict[str, str], dtype: str) -> str:
            return next(token for token, name in table.items() if name == dtype)

        output = "" if self.output == self.input else token(DTYPES, self.output)
        dtypes = token(DTYPES, self.input) + token(ACCUMULATORS, self.accumulator) + output
        return f"{self.operator}_{dtypes}_{'x'.join(map(str, self.dims))}"

    @property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """Row-major shape of each input."""
        return self._operator.inputs(self.dims)

    @property
    def input_dtypes(self) -> tuple[str, ...]:
        """Dtype of each input: the shape key's, or FACTOR_DTYPE for a factor."""
        factors = self._operator.factors
        return tuple(FACTOR_DTYPE if position in factors else self.input for position in range(len(self.inputs)))

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self._operator.output(self.dims)

    @property
    def flops(self) -> int:
        return self._operator.flops(self.dims)

    @property
    def terms(self) -> int:
        """Products that one output element sums (K of a GEMM)."""
        return self._operator.terms(self.dims)

    @property
    def roundings(self) -> int:
        """Roundings to the output's precision between inputs and output, the last one included."""
        return self._operator.roundings

    @property
    def scales(self) -> tuple[float, ...]:
        """Standard deviation of each input; the centre of each factor."""
        return self._operator.scales(self.dims)

    @property
    def tensors(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """(shape, dtype) of the inputs and, last, the output."""
        return (*zip(self.inputs, self.input_dtypes, strict=True), (self.output_shape, self.output))

    @property
    def bytes(self) -> int:
        """Bytes of one set of tensors: each input read once, the output written once."""
        return sum(math.prod(shape) * DTYPE_BYTES[dtype] for shape, dtype in self.tensors)

    @property
    def _operator(self) -> Operator:
        return OPERATORS[self.operator]

    def __str__(self) -> str:
        return self.shape_key


def parse_shape_key(key: str) -> Problem:
    """Parse a shape key. Raises UsageError that names the wrong part."""
    parts = key.split("_")
    if len(parts) != 3:
        raise UsageError(f"shape key '{key}' does not have the form {_FORM}")
    operator, dtypes, dims = parts
    if operator not in OPERATORS:
        raise UsageError(f"shape key '{key}': unknown operator '{operator}'; known: {', '.join(OPERATORS)}")
    match = _DTYPES.fullmatch(dtypes)
    if match is None:
        raise UsageError(
            f"shape key '{key}': unknown dtypes '{dtypes}'; inputs and outputs are {', '.join(DTYPES)}, "
            f"accumulators {', '.join(ACCUMULATORS)}, as in bf16fp32"
        )
    names = OPERATORS[operator].dims
    sizes = dims.split("x")
    if len(sizes) != len(names) or not all(re.fullmatch("[1-9][0-9]*", size, re.ASCII) for size in sizes):
        raise UsageError(f"shape key '{key}': dimensions '{dims}' are not {'x'.join(names)} in positive integers")
    if any(len(size) > 8 or int(size) > MAX_DIMENSION for size in sizes):
        raise UsageError(f"shape key '{key}': a dimension is larger than {MAX_DIMENSION}")
    for whole, part in OPERATORS[operator].multiples:
        numbers = dict(zip(names, map(int, sizes), strict=True))
        if numbers[whole] % numbers[part]:
            raise UsageError(f"shape key '{key}': {whole}={numbers[whole]} is no multiple of {part}={numbers[part]}")
    if (match["output"] or match["input"]) not in OUTPUTS:
        raise UsageError(f"shape key '{key}': an output is {', '.join(OUTPUTS)}; write it last, as in e4m3fp32bf16")
    source = DTYPES[match["input"]]
    problem = Problem(
        operator=operator,
        input=source,
        accumulator=ACCUMULATORS[match["accumulator"]],
        output=DTYPES[match["output"]] if match["output"] else source,
        dims=tuple(map(int, sizes)),
    )
    if problem.shape_key != key:  # one key for each problem: the output's dtype is written only if it differs
        raise UsageError(f"shape key '{key}' is written {problem.shape_key}")
    return problem
