"""``add``: X[N] + Y[N] -> Z[N]."""

from collections.abc import Sequence
from typing import Any

from harness.operators.operator import Operator, Times


def _reference(x: Any, y: Any) -> Any:
    return x + y


def _sketch(inputs: Sequence[Any], output: Any, signs: Any, times: Times) -> tuple[Any, Any]:
    x, y = inputs
    wide = signs.double()
    return (output.double() @ wide).view(1), (x.double() @ wide + y.double() @ wide).view(1)


OPERATOR = Operator(
    name="add",
    dims=("N",),
    inputs=lambda dims: (dims, dims),
    output=lambda dims: dims,
    flops=lambda dims: dims[0],
    terms=lambda dims: 1,
    reference=_reference,
    sketch=_sketch,
)
