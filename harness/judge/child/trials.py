"""The trials: the inputs and the reference of a verification, and how an output is compared."""

import math
from typing import Final

import torch

from harness.judge.facts.problem import Problem
from harness.judge.limits import limits
from harness.operators import OPERATORS
from harness.records.results import Trial

NOTHING: Final = 2.0**-100
FACTOR_SPREAD: Final = 1 / 6  # wide enough to miss one in the wrong place, narrow enough for the output's scale


def random_pool(problem: Problem, position: int, elements: int, dice: torch.Generator) -> torch.Tensor:
    """Fresh values for the input at ``position``, of its dtype, shape [elements]: scaled normal, factors uniform."""
    dtype, scale = getattr(torch, problem.input_dtypes[position]), problem.scales[position]
    wide = torch.float32 if dtype == torch.float8_e4m3fn else dtype
    values = torch.empty(elements, dtype=wide, device=dice.device)
    if position in OPERATORS[problem.operator].factors:
        return values.uniform_((1 - FACTOR_SPREAD) * scale, (1 + FACTOR_SPREAD) * scale, generator=dice)
    return values.normal_(0.0, scale, generator=dice).to(dtype)


def fill_exact(problem: Problem, inputs: list[torch.Tensor], dice: torch.Generator) -> None:
    """Fill with values for which the output's rounded ones are unique."""
    OPERATORS[problem.operator].fill_exact(inputs, dice)


def reference(problem: Problem, inputs: list[torch.Tensor]) -> torch.Tensor:
    """The operator in a wider dtype than its output's: float32 (TF32 off) for 16-bit outputs, float64 for float32."""
    wide = torch.float64 if problem.output == "float32" else torch.float32
    result = OPERATORS[problem.operator].reference(*(each.to(wide) for each in inputs))
    assert isinstance(result, torch.Tensor)
    return result


def compare(name: str, problem: Problem, output: torch.Tensor, expected: torch.Tensor) -> Trial:
    """Measure an output against the reference; a non-finite output has no error but infinity."""
    bounds = limits(problem)
    error = (output.to(expected.dtype) - expected).abs_()
    max_abs = float(error.max())
    rel = float(
        torch.linalg.vector_norm(error, dtype=torch.float64) / torch.linalg.vector_norm(expected, dtype=torch.float64)
    )
    return Trial(name, _finite(max_abs), _finite(rel), bounds.max_abs, bounds.rel)


def compare_exact(name: str, problem: Problem, output: torch.Tensor, expected: torch.Tensor) -> Trial:
    """The exact trial: the output must be the reference rounded to its dtype, bit for bit.

    Where the operator says of its values to what they are exact, what is left of a zero counts as zero.
    """
    exact_in = OPERATORS[problem.operator].exact_in
    dtype = getattr(torch, exact_in) if exact_in and output.dtype == torch.float32 else output.dtype
    found, wanted = (each.to(dtype).to(expected.dtype) for each in (output, expected))
    if exact_in:
        found, wanted = (each.masked_fill(each.abs() < NOTHING, 0.0) for each in (found, wanted))
    error = float((found - wanted).abs_().max())
    return Trial(name, _finite(error), None, None, None)


def sketch(problem: Problem, inputs: list[torch.Tensor], output: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    """How far a sketch of the output is from one of the inputs, a vector; NaN where the output has one."""
    of_output, of_inputs = OPERATORS[problem.operator].sketch(inputs, output, dice, _times)
    difference: torch.Tensor = (of_output - of_inputs).abs_()
    return difference


def _times(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """A matrix in its own dtype times a float32 vector, in float32, without a float32 copy where the device can.

    A 16-bit dtype holds the vector as the sum of two columns, to twice its precision.
    """
    if matrix.dtype not in (torch.bfloat16, torch.float16) or matrix.device.type != "cuda":
        return matrix.float() @ vector
    high = vector.to(matrix.dtype)
    columns = torch.stack((high, (vector - high).to(matrix.dtype)), dim=1)
    return torch.mm(matrix, columns, out_dtype=torch.float32).sum(dim=1)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
