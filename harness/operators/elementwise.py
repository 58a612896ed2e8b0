"""Operators that move elements or add them, one by one."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from harness.judge.facts.operator import OUTPUT_SCALE, Dims, Operator, Shape, Times
from harness.operators.products import fill_exact, signs_of


def elementwise(
    name: str,
    dims: tuple[str, ...],
    *,
    inputs: Callable[[Dims], tuple[Shape, ...]],
    reference: Callable[..., Any],
    signed_sum: Callable[[Sequence[Any], Any], Any],
    flops: Callable[[Dims], int] = lambda dims: 0,
) -> Operator:
    """An operator with an output of the shape ``dims``.

    ``signed_sum`` gives the product of the output with a vector of signs, from the inputs. Float64 sums exactly enough.
    """

    def sketch(tensors: Sequence[Any], output: Any, dice: Any, times: Times) -> tuple[Any, Any]:
        signs = signs_of(output, dice).double()
        return (output.double() @ signs).view(-1), signed_sum([each.double() for each in tensors], signs).view(-1)

    def scales(sizes: Dims) -> tuple[float, ...]:
        """A sum of so many inputs has the output's scale."""
        count = len(inputs(sizes))
        return (OUTPUT_SCALE / math.sqrt(count),) * count

    return Operator(
        name=name,
        dims=dims,
        inputs=inputs,
        output=lambda sizes: sizes,
        flops=flops,
        terms=lambda sizes: 1,
        reference=reference,
        scales=scales,
        fill_exact=fill_exact,
        sketch=sketch,
        rows=(),
    )
