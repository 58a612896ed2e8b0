"""``copy``: X[M,N] -> Z[M,N]; the library's figure here is the ceiling of every problem that moves as many bytes."""

from collections.abc import Sequence
from typing import Any

from harness.operators.operator import Operator, Times


def _reference(x: Any) -> Any:
    return x


def _sketch(inputs: Sequence[Any], output: Any, signs: Any, times: Times) -> tuple[Any, Any]:
    (x,) = inputs
    wide = signs.double()
    return output.double() @ wide, x.double() @ wide


OPERATOR = Operator(
    name="copy",
    dims=("M", "N"),
    inputs=lambda dims: (dims,),
    output=lambda dims: dims,
    flops=lambda dims: 0,
    terms=lambda dims: 1,
    reference=_reference,
    sketch=_sketch,
)
