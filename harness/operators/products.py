"""What operators share: scales of their inputs, small integers, random signs, and Freivalds' check."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from harness.judge.facts.operator import OUTPUT_SCALE, Dims, Sketch, Times


def scales(dims: Dims) -> tuple[float, float]:
    """Both alike: sums of K products of zero-mean values then have the output's scale."""
    each = math.sqrt(OUTPUT_SCALE / math.sqrt(dims[2]))
    return each, each


def fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Small integers: every partial sum is exact, so the rounded result is unique."""
    import torch

    for tensor in inputs:
        largest = 1 if tensor.dtype == torch.float8_e4m3fn else 2
        tensor.copy_(
            torch.randint(-largest, largest + 1, tensor.shape, device=tensor.device, generator=dice, dtype=torch.int8)
        )


def signs_of(output: Any, dice: Any) -> Any:
    """A random sign for each element of a row of the output: int8[N]."""
    import torch

    return torch.randint(0, 2, output.shape[-1:], device=output.device, generator=dice, dtype=torch.int8) * 2 - 1


def freivalds(of_inputs: Callable[[Sequence[Any], Any, Times], Any]) -> Sketch:
    """The output times a random vector of N signs, and the same from the inputs.

    Freivalds, "Probabilistic machines can use less running time", 1977.
    """

    def sketch(inputs: Sequence[Any], output: Any, dice: Any, times: Times) -> tuple[Any, Any]:
        signs = signs_of(output, dice).float()
        return times(output, signs), of_inputs(inputs, signs, times)

    return sketch


def signed(of_inputs: Callable[[Sequence[Any], Any], Any]) -> Sketch:
    """The same for an output of rows that no product makes: in float64, in which all sums are exact enough."""

    def sketch(inputs: Sequence[Any], output: Any, dice: Any, times: Times) -> tuple[Any, Any]:
        signs = signs_of(output, dice).double()
        return (output.double() @ signs).view(-1), of_inputs([each.double() for each in inputs], signs).view(-1)

    return sketch


def unscaled(inputs: int) -> Callable[[Dims], tuple[float, ...]]:
    """A sum of so many inputs has the output's scale."""
    return lambda dims: (OUTPUT_SCALE / math.sqrt(inputs),) * inputs
