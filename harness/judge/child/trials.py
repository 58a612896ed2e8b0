"""The trials of a verification: inputs, reference, and comparison of the outputs."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import torch
from msgspec.structs import replace

from harness.judge.facts.dtypes import FLOATS
from harness.judge.facts.problem import Problem
from harness.judge.limits import complaint, limits
from harness.operators import OPERATORS
from harness.records.results import Trial

EXACT: Final = "exact"
NOTHING: Final = 2.0**-100
CORNER_SLACK: Final = 4  # times the limits; a kernel that ignores a part of the problem is off by far more
POWER_OF_8_BITS: Final = 2  # as an operator's ``corner_power``: e4m3 carries no more
FAR: Final = 6  # scales: the largest of many normal values
SKETCHED_ROWS: Final = 64  # of a launch of an operator without a sketch
POISON: Final = 0xFF  # a byte of NaN in every float dtype
INTEGER_POISON: Final = 0x80  # of an integer output: no index, and hardly a value
_INTEGERS: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def random_pool(problem: Problem, position: int, elements: int, dice: torch.Generator) -> torch.Tensor:
    """Fresh values for the input at ``position``, shape [elements]; of a whole fill, one draw after another."""
    (shape, dtype), fill = problem.tensors[position], problem.fills[position]
    if not fill.whole:
        return _drawn(fill.draw((elements,), dtype, problem.sizes, dice))
    draws = -(-elements // math.prod(shape))
    return torch.cat([_drawn(fill.draw(shape, dtype, problem.sizes, dice)).view(-1) for _ in range(draws)])


def _drawn(values: object) -> torch.Tensor:
    assert isinstance(values, torch.Tensor)
    return values


def fill_exact(problem: Problem, inputs: list[torch.Tensor], dice: torch.Generator) -> bool:
    """Fill the inputs with values that have one right output after rounding; False if the operator knows none."""
    if (fill := OPERATORS[problem.operator].fill_exact) is None:
        return False
    fill(inputs, dice)
    hide_unread(problem, inputs)
    return True


def hide_unread(problem: Problem, inputs: Sequence[torch.Tensor]) -> None:
    """Poison what no launch may look at, such as what lies beyond a length."""
    operator = OPERATORS[problem.operator]
    for name, mask in operator.unread(*inputs).items() if operator.unread else ():
        words = as_integers(inputs[list(operator.inputs).index(name)])
        words.masked_fill_(mask.view(*mask.shape, *[1] * (words.ndim - mask.ndim)), -1)


def as_integers(tensor: torch.Tensor) -> torch.Tensor:
    """The same bytes as integers of the same width."""
    return tensor.view(_INTEGERS[tensor.itemsize])


def poison(outputs: Sequence[torch.Tensor]) -> None:
    """Fill outputs with what no right launch leaves."""
    for each in outputs:
        as_integers(each).fill_(poison_of(each))


def poison_of(tensor: torch.Tensor) -> int:
    """What ``as_integers`` of an output holds before it is written."""
    byte = POISON if tensor.is_floating_point() else INTEGER_POISON
    return int.from_bytes(bytes([byte] * tensor.itemsize), "little", signed=True)


COUNTED: Final = ("random", "refreshed", "timed")  # in which each element has the same limit


def _outlier(rows: torch.Tensor, large: float, dice: torch.Generator) -> torch.Tensor:
    """Each row has it in a random column, so no kernel can look there alone."""
    columns = torch.randint(rows.shape[1], (len(rows), 1), device=rows.device, generator=dice)
    return rows.scatter(1, columns, large)


def _strided(rows: torch.Tensor) -> torch.Tensor:
    """Each row's largest values lie a power of two apart, from row to row another: one thread of many may hold all."""
    count, width = rows.shape
    columns = torch.arange(width, device=rows.device)
    strides = (2 << torch.arange(count, device=rows.device) % max(1, width.bit_length() - 2))[:, None]
    lane = columns % strides
    rank = lane * (width // strides) + lane.minimum(width % strides) + columns // strides  # of columns, lane by lane
    return rows.sort(dim=1).values.gather(1, rank)


# Each makes its rows from random ones, given their scale, the power of two, and dice.
CORNERS: Final[dict[str, Callable[[torch.Tensor, float, int, torch.Generator], torch.Tensor]]] = {
    "zero": lambda rows, *_: rows * 0,
    "tiny": lambda rows, scale, power, _: rows * 2.0**-power,
    "huge": lambda rows, scale, power, _: rows * 2.0**power,
    "equal": lambda rows, scale, *_: torch.full_like(rows, scale),
    "sorted": lambda rows, *_: rows.sort(dim=1).values,
    "strided": lambda rows, *_: _strided(rows),
    "outlier": lambda rows, scale, power, dice: _outlier(rows, scale * 2.0**power, dice),
}


def fill_corners(problem: Problem, inputs: list[torch.Tensor], dice: torch.Generator) -> torch.Tensor | None:
    """Make each row that one row of the output follows from a corner; returns which of CORNERS, shape [rows].

    None for an operator without such rows of floats.
    """
    operator = OPERATORS[problem.operator]
    positions = [each for each in problem.row_inputs if inputs[each].is_floating_point()]
    if not positions:
        return None
    first = inputs[positions[0]]
    rows = first.numel() // first.shape[-1]
    which = torch.randperm(rows, device=dice.device, generator=dice) % len(CORNERS)  # each about as often
    for position in positions:
        tensor = inputs[position]
        power = min(operator.corner_power, POWER_OF_8_BITS if tensor.itemsize == 1 else operator.corner_power)
        as_bytes = tensor.view(rows, -1).view(torch.uint8)  # torch cannot index 8-bit floats
        for number, corner in enumerate(CORNERS.values()):
            chosen = which == number
            random = as_bytes[chosen].view(tensor.dtype).float()
            made = corner(random, problem.scales[position], power, dice)
            as_bytes[chosen] = made.to(tensor.dtype).view(torch.uint8)
    hide_unread(problem, inputs)
    return which


def reference(problem: Problem, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The first output by ``references``."""
    return references(problem, inputs)[0]


def references(problem: Problem, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs in a wider dtype than theirs: float32 without TF32 for 16-bit floats, else float64.

    The inputs may hold a part of the problem's rows. Raises ValueError if the operator returns other outputs.
    """
    wide = torch.float64 if any(dtype == "float32" for _, dtype in problem.outputs) else torch.float32
    given = (each.to(wide) if each.is_floating_point() else each for each in inputs)
    function = OPERATORS[problem.operator].reference
    made = function(*given, **problem.asked_by(function))
    found = [made] if isinstance(made, torch.Tensor) else list(made or ())
    shapes = [tuple(each.shape) for each in found]
    wanted = [shape for shape, _ in problem.outputs]
    if problem.rows is not None:
        wanted = [(len(inputs[problem.row_inputs[0]]), *shape[1:]) for shape in wanted]
    if shapes != wanted:
        raise ValueError(f"operator {problem.operator}: its reference returns {shapes}, and its outputs are {wanted}")
    pairs = zip(found, problem.outputs, strict=True)
    return [each.to(wide) if dtype in FLOATS else each for each, (_, dtype) in pairs]


def judged(
    name: str,
    problem: Problem,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    which: torch.Tensor | None = None,
) -> list[Trial]:
    """Compare each output with the reference of the inputs, which are corners if ``which`` says which."""
    expected = _expected(problem, inputs, outputs)
    trials = [
        _with_worst(_judged(name, problem, position, output, wanted, which), output, wanted)
        for position, (output, wanted) in enumerate(zip(outputs, expected, strict=True))
    ]
    if len(trials) == 1:
        return trials
    return [replace(each, name=f"{of}, {each.name}") for of, each in zip(problem.output_names, trials, strict=True)]


def _judged(
    name: str, problem: Problem, position: int, output: torch.Tensor, expected: torch.Tensor, which: torch.Tensor | None
) -> Trial:
    if not output.is_floating_point():
        return compare_integers(name, output, expected)
    if name == EXACT:
        return compare_exact(name, problem, output, expected)
    if which is not None:
        return compare_corners(problem, output, expected, which, position)
    return compare(name, problem, output, expected, position)


def _with_worst(trial: Trial, output: torch.Tensor, expected: torch.Tensor) -> Trial:
    """The trial; of a wrong output also the place of the largest error, and how many elements are off."""
    if complaint(trial) is None:
        return trial
    is_float = output.is_floating_point()
    error = (output.to(expected.dtype) - expected).abs_() if is_float else _differs(output, expected)
    error = error.double().nan_to_num_(nan=math.inf)
    place = [int(each) for each in torch.unravel_index(error.argmax(), error.shape)]
    found, wanted = output[*place], expected[*place]
    skipped = " (or was not written)" if not is_float and as_integers(found) == poison_of(found) else ""
    worst = f"at {place} it is {_number(found)}{skipped}, not {_number(wanted)}"
    if trial.max_abs_err and float(error.max()) > 1.01 * trial.max_abs_err:
        worst += f" (an error of {float(error.max()):.3g}, which counts less at so large a value)"
    if not is_float or trial.name in COUNTED:
        off = int((error > (trial.max_abs_limit or 0.0)).sum())
        worst += f", and {off:,} of {error.numel():,} elements are off" if off else ""
    return replace(trial, worst=worst)


def _number(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _expected(
    problem: Problem, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> Sequence[torch.Tensor]:
    """The reference, with outputs that are as right in its place."""
    expected = references(problem, inputs)
    equivalent = OPERATORS[problem.operator].equivalent
    return expected if equivalent is None else equivalent(inputs, outputs, expected)


def compare_integers(name: str, output: torch.Tensor, expected: torch.Tensor) -> Trial:
    """Integers and truth values must be the reference's; the error is the largest difference, or 1."""
    wrong = _differs(output, expected)
    error = max(1.0, float((output.double() - expected.double()).abs().max())) if bool(wrong.any()) else 0.0
    return Trial(name, error, None, None, None)


def _differs(output: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    if output.dtype != torch.bool:
        return output != expected
    return as_integers(output) != expected.to(torch.int8)  # a byte of a bool may be any


def compare(name: str, problem: Problem, output: torch.Tensor, expected: torch.Tensor, position: int = 0) -> Trial:
    """Compare an output with the reference. The error of a non-finite output is None."""
    bounds = limits(problem, position)
    error = (output.to(expected.dtype) - expected).abs_()
    max_abs = float(_levelled(error, problem, position, expected, problem.scale_of(position)).max())
    rel = float(
        torch.linalg.vector_norm(error, dtype=torch.float64) / torch.linalg.vector_norm(expected, dtype=torch.float64)
    )
    return Trial(name, _finite(max_abs), _finite(rel), bounds.max_abs, bounds.rel)


def _levelled(
    error: torch.Tensor, problem: Problem, position: int, expected: torch.Tensor, scale: torch.Tensor | float
) -> torch.Tensor:
    """Errors; of a skewed output that of a value far beyond its scale is made as small as if it were FAR scales.

    Of an uneven output that of a row beyond its scale is made as small as if the row were not.
    """
    if problem.is_skewed(position):
        error = error / (expected.abs() / (FAR * scale)).clamp_min(1.0)
    if problem.is_uneven(position):
        size = torch.linalg.vector_norm(expected, dim=-1, keepdim=True) / math.sqrt(expected.shape[-1])
        error = error / (size / scale).clamp_min(1.0)
    return error


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


def compare_corners(
    problem: Problem, output: torch.Tensor, expected: torch.Tensor, which: torch.Tensor, position: int = 0
) -> Trial:
    """The first corner with a complaint, by the limits that its rows' size gives; else that with the largest error.

    An output without a row for each of ``which`` is compared as one row.
    """
    if math.prod(output.shape[:-1]) != len(which) and output.numel() != len(which):
        return compare_scaled("corners (all rows)", problem, output.reshape(1, -1), expected.reshape(1, -1), position)
    found = []
    for number, corner in enumerate(CORNERS):
        chosen = which == number
        if bool(chosen.any()):
            rows, wanted = (each.reshape(len(which), -1)[chosen] for each in (output, expected))
            found.append(compare_scaled(f"corners ({corner})", problem, rows, wanted, position))
    return next(filter(complaint, found), max(found, key=lambda trial: trial.rel_err or 0.0))


def compare_scaled(
    name: str, problem: Problem, output: torch.Tensor, expected: torch.Tensor, position: int = 0
) -> Trial:
    """``compare`` for rows, shape [rows, columns], of another size than the output's scale; errors are scaled to it."""
    bounds = limits(problem, position)
    error = (output.to(expected.dtype) - expected).abs_()
    sizes = expected.double().square().mean(dim=1, keepdim=True).sqrt()
    size = sizes.square().mean().sqrt().clamp_min(NOTHING)
    size_of_rows = torch.maximum(sizes, size)
    max_abs = float(
        (_levelled(error, problem, position, expected, size_of_rows) / size_of_rows).max()
    ) * problem.scale_of(position)
    rel = float(error.double().square().mean().sqrt() / size)
    return Trial(name, _finite(max_abs), _finite(rel), CORNER_SLACK * bounds.max_abs, CORNER_SLACK * bounds.rel)


def deviation(
    problem: Problem, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], dice: torch.Generator
) -> torch.Tensor:
    """How far the outputs of a launch are from right, a vector to hold against ``sketch_limit``; NaN if not written.

    By the operator's sketch, else by some rows computed again, else by all of the outputs.
    """
    if problem.has_sketch:
        return sketch(problem, inputs, outputs[0], dice)
    seen = list(outputs)
    if problem.rows is not None:
        picked = torch.randint(problem.rows, (SKETCHED_ROWS,), device=dice.device, generator=dice)
        inputs = [
            _rows(each, picked) if position in problem.row_inputs else each for position, each in enumerate(inputs)
        ]
        seen = [_rows(each, picked) for each in outputs]
    expected = _expected(problem, inputs, seen)
    shares = [_share(problem, *each) for each in enumerate(zip(seen, expected, strict=True))]
    return torch.stack([*shares, *map(unwritten, outputs)])


def _rows(tensor: torch.Tensor, picked: torch.Tensor) -> torch.Tensor:
    return as_integers(tensor)[picked].view(tensor.dtype)  # torch cannot index 8-bit floats


def _share(problem: Problem, position: int, pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The larger error of an output as a share of its limit; of integers 2 if one is wrong."""
    found, expected = pair
    if not found.is_floating_point():
        return 2.0 * _differs(found, expected).any().float()
    bounds, error = limits(problem, position), (found.to(expected.dtype) - expected).abs_()
    norm = torch.linalg.vector_norm(expected, dtype=torch.float64).clamp_min(NOTHING)
    rel = torch.linalg.vector_norm(error, dtype=torch.float64) / norm
    error = _levelled(error, problem, position, expected, problem.scale_of(position))
    return torch.maximum(error.max() / bounds.max_abs, rel / bounds.rel).float()


def unwritten(output: torch.Tensor) -> torch.Tensor:
    """0, or NaN if an element is not finite or still poison; a byte may be poison and right."""
    bad = ~output.isfinite() if output.is_floating_point() else as_integers(output) == poison_of(output)
    found = bad.any() & (output.itemsize > 1)
    return torch.zeros((), device=output.device).masked_fill_(found, math.nan)


def sketch(
    problem: Problem, inputs: Sequence[torch.Tensor], output: torch.Tensor, dice: torch.Generator
) -> torch.Tensor:
    """The difference of the output's sketch and the inputs' sketch, a vector; NaN where the output is NaN."""
    of_one_output = OPERATORS[problem.operator].sketch
    assert of_one_output is not None
    of_output, of_inputs = of_one_output(inputs, output, dice, _times)
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
