"""``contiguous``: X[N,M] -> Z[M,N] = Xᵀ: a transposed view, with strides (1, M), written to rows of its own."""

from collections.abc import Sequence
from typing import Any

from harness.judge.facts.operator import Operator
from harness.operators.products import fill_exact, signed, unscaled


def _reference(x: Any) -> Any:
    return x.T.contiguous()


def _of_inputs(inputs: Sequence[Any], signs: Any) -> Any:
    return inputs[0].T @ signs


OPERATOR = Operator(
    name="contiguous",
    dims=("M", "N"),
    inputs=lambda dims: ((dims[1], dims[0]),),
    output=lambda dims: dims,
    flops=lambda dims: 0,
    terms=lambda dims: 1,
    reference=_reference,
    scales=unscaled(1),
    fill_exact=fill_exact,
    sketch=signed(_of_inputs),
)
