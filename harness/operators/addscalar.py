"""``addscalar``: X[N] + s[1] -> Z[N]; the scalar is known only when the kernel is launched."""

from collections.abc import Sequence
from typing import Any

from harness.operators.operator import Operator, Times


def _reference(x: Any, scalar: Any) -> Any:
    return x + scalar


def _sketch(inputs: Sequence[Any], output: Any, signs: Any, times: Times) -> tuple[Any, Any]:
    x, scalar = inputs
    wide = signs.double()
    return (output.double() @ wide).view(1), (x.double() @ wide + scalar.double() * wide.sum()).view(1)


OPERATOR = Operator(
    name="addscalar",
    dims=("N",),
    inputs=lambda dims: (dims, (1,)),
    output=lambda dims: dims,
    flops=lambda dims: dims[0],
    terms=lambda dims: 1,
    reference=_reference,
    sketch=_sketch,
)
