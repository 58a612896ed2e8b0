"""Operators that move elements or add them, one by one."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.judge.facts.fills import Normal
from harness.judge.facts.operator import OUTPUT_SCALE, Input, Operator, Output, Times
from harness.judge.facts.sizes import Size
from harness.operators.products import fill_exact, signs_of


def elementwise(
    name: str,
    dims: tuple[str, ...],
    *,
    inputs: Mapping[str, str],
    reference: Callable[..., Any],
    signed_sum: Callable[[Sequence[Any], Any], Any],
    flops: Size = 0,
) -> Operator:
    """An operator with inputs of these shapes and an output of the shape ``dims``.

    ``signed_sum`` gives the product of the output with a vector of signs, from the inputs. Float64 sums exactly enough.
    """

    def sketch(tensors: Sequence[Any], output: Any, dice: Any, times: Times) -> tuple[Any, Any]:
        signs = signs_of(output, dice).double()
        return (output.double() @ signs).view(-1), signed_sum([each.double() for each in tensors], signs).view(-1)

    each = Normal(OUTPUT_SCALE / math.sqrt(len(inputs)))  # a sum of so many inputs has the output's scale
    return Operator(
        name=name,
        dims=dims,
        inputs={name: Input(shape, fill=each) for name, shape in inputs.items()},
        outputs={"z": Output(", ".join(dims))},
        flops=flops,
        reference=reference,
        fill_exact=fill_exact,
        sketch=sketch,
    )
