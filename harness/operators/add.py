"""``add``: X[N] + Y[N] -> Z[N]."""

from collections.abc import Sequence
from typing import Any

from harness.judge.facts.operator import Operator
from harness.operators.products import fill_exact, signed, unscaled


def _reference(x: Any, y: Any) -> Any:
    return x + y


def _of_inputs(inputs: Sequence[Any], signs: Any) -> Any:
    return inputs[0] @ signs + inputs[1] @ signs


OPERATOR = Operator(
    name="add",
    dims=("N",),
    inputs=lambda dims: (dims, dims),
    output=lambda dims: dims,
    flops=lambda dims: dims[0],
    terms=lambda dims: 1,
    reference=_reference,
    scales=unscaled(2),
    fill_exact=fill_exact,
    sketch=signed(_of_inputs),
)
