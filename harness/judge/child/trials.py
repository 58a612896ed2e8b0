"""The trials of a verification: inputs, reference, and comparison of an output."""

import math
from collections.abc import Callable
from typing import Final

import torch

from harness.judge.facts.operator import OUTPUT_SCALE
from harness.judge.facts.problem import Problem
from harness.judge.limits import complaint, limits
from harness.operators import OPERATORS
from harness.records.results import Trial

NOTHING: Final = 2.0**-100
CORNER_SLACK: Final = 4  # times the limits; a kernel that ignores a part of the problem is off by far more
POWER_OF_8_BITS: Final = 2  # as an operator's ``corner_power``: e4m3 carries no more
FACTOR_SPREAD: Final = 1 / 6  # wide enough to show a factor in the wrong place, narrow enough for the output's scale


def random_pool(problem: Problem, position: int, elements: int, dice: torch.Generator) -> torch.Tensor:
    """Fresh values for the input at ``position``, shape [elements]: scaled normal; factors are uniform."""
    dtype, scale = getattr(torch, problem.input_dtypes[position]), problem.scales[position]
    wide = torch.float32 if dtype == torch.float8_e4m3fn else dtype
    values = torch.empty(elements, dtype=wide, device=dice.device)
    if position in OPERATORS[problem.operator].factors:
        return values.uniform_((1 - FACTOR_SPREAD) * scale, (1 + FACTOR_SPREAD) * scale, generator=dice)
    return values.normal_(0.0, scale, generator=dice).to(dtype)


def fill_exact(problem: Problem, inputs: list[torch.Tensor], dice: torch.Generator) -> None:
    """Fill the inputs with values that have one right output after rounding."""
    OPERATORS[problem.operator].fill_exact(inputs, dice)


def _outlier(rows: torch.Tensor, large: float) -> torch.Tensor:
    rows[:, rows.shape[1] // 3] = large
    return rows


# Each makes its rows from random ones, given their scale and the power of two.
CORNERS: Final[dict[str, Callable[[torch.Tensor, float, int], torch.Tensor]]] = {
    "zero": lambda rows, scale, power: rows * 0,
    "tiny": lambda rows, scale, power: rows * 2.0**-power,
    "huge": lambda rows, scale, power: rows * 2.0**power,
    "equal": lambda rows, scale, power: torch.full_like(rows, scale),
    "sorted": lambda rows, scale, power: rows.sort(dim=1).values,
    "outlier": lambda rows, scale, power: _outlier(rows, scale * 2.0**power),
}


def fill_corners(problem: Problem, inputs: list[torch.Tensor], dice: torch.Generator) -> torch.Tensor | None:
    """Make each row that one row of the output follows from a corner; returns which of CORNERS, shape [rows].

    None for an operator without such rows.
    """
    operator = OPERATORS[problem.operator]
    if not operator.rows:
        return None
    first = inputs[operator.rows[0]]
    rows = first.numel() // first.shape[-1]
    which = torch.randint(len(CORNERS), (rows,), device=dice.device, generator=dice)
    for position in operator.rows:
        tensor = inputs[position]
        power = min(operator.corner_power, POWER_OF_8_BITS if tensor.itemsize == 1 else operator.corner_power)
        as_bytes = tensor.view(rows, -1).view(torch.uint8)  # torch cannot index 8-bit floats
        for number, corner in enumerate(CORNERS.values()):
            chosen = which == number
            random = as_bytes[chosen].view(tensor.dtype).float()
            as_bytes[chosen] = corner(random, problem.scales[position], power).to(tensor.dtype).view(torch.uint8)
    return which


def reference(problem: Problem, inputs: list[torch.Tensor]) -> torch.Tensor:
    """The operator in a wider dtype than the output's: float32 without TF32 for 16-bit outputs, else float64."""
    wide = torch.float64 if problem.output == "float32" else torch.float32
    result = OPERATORS[problem.operator].reference(*(each.to(wide) for each in inputs))
    assert isinstance(result, torch.Tensor)
    return result


def compare(name: str, problem: Problem, output: torch.Tensor, expected: torch.Tensor) -> Trial:
    """Compare an output with the reference. The error of a non-finite output is None."""
    bounds = limits(problem)
    error = (output.to(expected.dtype) - expected).abs_()
    max_abs = float(error.max())
    rel = float(
        torch.linalg.vector_norm(error, dtype=torch.float64) / torch.linalg.vector_norm(expected, dtype=torch.float64)
    )
    return Trial(name, _finite(max_abs), _finite(rel), bounds.max_abs, bounds.rel)


def compare_exact(name: str, problem: Problem, output: torch.Tensor, expected: torch.Tensor) -> Trial:
    """The exact trial: the output must equal the rounded reference bit for bit.

    An operator with ``exact_in`` is rounded to that dtype first, and its values below NOTHING count as zero.
    """
    exact_in = OPERATORS[problem.operator].exact_in
    dtype = getattr(torch, exact_in) if exact_in and output.dtype == torch.float32 else output.dtype
    found, wanted = (each.to(dtype).to(expected.dtype) for each in (output, expected))
    if exact_in:
        found, wanted = (each.masked_fill(each.abs() < NOTHING, 0.0) for each in (found, wanted))
    error = float((found - wanted).abs_().max())
    return Trial(name, _finite(error), None, None, None)


def compare_corners(problem: Problem, output: torch.Tensor, expected: torch.Tensor, which: torch.Tensor) -> Trial:
    """The first corner with a complaint, by the limits that its rows' size gives; else that with the largest error."""
    found = []
    for number, corner in enumerate(CORNERS):
        chosen = which == number
        if bool(chosen.any()):
            rows, wanted = (each.view(len(which), -1)[chosen] for each in (output, expected))
            found.append(_compare_scaled(corner, problem, rows, wanted))
    return next(filter(complaint, found), max(found, key=lambda trial: trial.rel_err or 0.0))


def _compare_scaled(corner: str, problem: Problem, output: torch.Tensor, expected: torch.Tensor) -> Trial:
    """``compare`` for rows, shape [rows, columns], that are not of OUTPUT_SCALE: their errors are scaled to it."""
    bounds = limits(problem)
    error = (output.to(expected.dtype) - expected).abs_()
    sizes = expected.double().square().mean(dim=1, keepdim=True).sqrt()
    size = sizes.square().mean().sqrt().clamp_min(NOTHING)
    max_abs = float((error / torch.maximum(sizes, size)).max()) * OUTPUT_SCALE
    rel = float(error.double().square().mean().sqrt() / size)
    return Trial(
        f"corners ({corner})",
        _finite(max_abs),
        _finite(rel),
        CORNER_SLACK * bounds.max_abs,
        CORNER_SLACK * bounds.rel,
    )


def sketch(problem: Problem, inputs: list[torch.Tensor], output: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    """The difference of the output's sketch and the inputs' sketch, a vector; NaN where the output is NaN."""
    of_output, of_inputs = OPERATORS[problem.operator].sketch(inputs, output, dice, _times)
    difference: torch.Tensor = (of_output - of_inputs).abs_()
    return difference


def _times(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """A matrix times a float32 vector, in float32; on a GPU without a float32 copy of a 16-bit matrix.

    Two 16-bit columns hold the vector as their sum, to twice the precision of one.
    """
    if matrix.dtype not in (torch.bfloat16, torch.float16) or matrix.device.type != "cuda":
        return matrix.float() @ vector
    high = vector.to(matrix.dtype)
    columns = torch.stack((high, (vector - high).to(matrix.dtype)), dim=1)
    return torch.mm(matrix, columns, out_dtype=torch.float32).sum(dim=1)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
