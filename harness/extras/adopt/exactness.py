"""The size of an example's outputs, and how exact the script's own precision is."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import torch

from harness.extras.adopt.tape import NotAdopted
from harness.judge.child.trials import compare
from harness.judge.facts.problem import Problem
from harness.judge.limits import limits
from harness.operators import OPERATORS, Operator

FAR: Final = 8  # deviations; no normal value of an output lies so far out
WIDE: Final = 32  # elements of a row; the size of a shorter one varies by chance
UNEVEN: Final = 1.5  # times the deviation; a row of equal values is seldom as large
CLOSE: Final = 0.75  # of a limit; another draw may err beyond it
# A limit by the script's own precision, over the error of one draw. A kernel rounds elsewhere, and hundreds of its
# launches are compared: TileLang's split decoding reached 3.1 times that error on an H200.
MARGIN: Final = 4.0
SAID: Final = ("roundings", "scale", "skewed", "uneven")  # of an output's size, as ``Output`` names it


class OutputSize(NamedTuple):
    """What an operator says of an output's values, and whether its limits are those of the script's own precision."""

    scale: float = 1.0
    skewed: bool = False
    uneven: bool = False
    roundings: int = 1
    own: bool = False


def sizes(
    problem: Problem, roundings: int, right: Sequence[torch.Tensor], own: Sequence[torch.Tensor]
) -> list[OutputSize]:
    """The size of each output. ``right`` has wide values, and ``own`` those of the script's precision.

    The judge's limits count the roundings of the reference's calls. Where the script's own precision comes close to
    one, that limit is MARGIN times its error. Raises NotAdopted for values that are not finite.
    """
    operator, pairs = OPERATORS[problem.operator], enumerate(zip(right, own, strict=True))
    try:
        return [_size(problem, operator, number, roundings, *each) for number, each in pairs]
    finally:
        OPERATORS[problem.operator] = operator


def _size(
    problem: Problem, operator: Operator, number: int, roundings: int, right: torch.Tensor, own: torch.Tensor
) -> OutputSize:
    size = OutputSize(*_deviation(right), roundings)
    if not own.is_floating_point():
        return size

    def tell(size: OutputSize) -> None:
        name = problem.output_names[number]
        told = replace(operator.outputs[name], **{each: getattr(size, each) for each in SAID})
        OPERATORS[problem.operator] = replace(operator, outputs={**operator.outputs, name: told})

    tell(size)
    trial = compare("own precision", problem, own, right, number)
    if trial.max_abs_err is None or trial.rel_err is None:
        raise NotAdopted("its reference gives values that are not finite at the script's own precision")
    bound = limits(problem, number)
    if trial.max_abs_err > CLOSE * bound.max_abs:
        size = size._replace(scale=_two_digits(size.scale * MARGIN * trial.max_abs_err / bound.max_abs), own=True)
    if trial.rel_err > CLOSE * bound.rel:
        while MARGIN * trial.rel_err > limits(problem, number).rel:
            size = size._replace(roundings=2 * size.roundings, own=True)
            tell(size)
    return size


def _deviation(found: torch.Tensor) -> tuple[float, bool, bool]:
    """The standard deviation of right values, to two digits; whether a few lie far beyond it; whether whole rows do."""
    values = found.double()
    scale = float(values.square().mean().sqrt()) if values.numel() else 0.0
    if not math.isfinite(scale):
        raise NotAdopted("its reference gives values that are not finite")
    if scale == 0:
        return 1.0, False, False
    rows = values.square().mean(dim=-1).sqrt() if values.ndim > 1 and values.shape[-1] >= WIDE else values.new_zeros(1)
    return _two_digits(scale), bool(values.abs().max() > FAR * scale), bool(rows.max() > UNEVEN * scale)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")
