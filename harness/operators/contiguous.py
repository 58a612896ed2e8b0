"""``contiguous``: X[N,M] -> Z[M,N] = Xᵀ: a transposed view, with strides (1, M), written to rows of its own."""

from collections.abc import Sequence
from typing import Any

from harness.operators.operator import Operator, Times


def _reference(x: Any) -> Any:
    return x.T.contiguous()


def _sketch(inputs: Sequence[Any], output: Any, signs: Any, times: Times) -> tuple[Any, Any]:
    (x,) = inputs
    wide = signs.double()
    return output.double() @ wide, x.double().T @ wide


OPERATOR = Operator(
    name="contiguous",
    dims=("M", "N"),
    inputs=lambda dims: ((dims[1], dims[0]),),
    output=lambda dims: dims,
    flops=lambda dims: 0,
    terms=lambda dims: 1,
    reference=_reference,
    sketch=_sketch,
)
