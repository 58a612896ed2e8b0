"""``addscalar``: X[N] + s[1] -> Z[N]; the scalar is known only when the kernel is launched."""

from collections.abc import Sequence
from typing import Any

from harness.judge.facts.operator import Operator
from harness.operators.products import fill_exact, signed, unscaled


def _reference(x: Any, scalar: Any) -> Any:
    return x + scalar


def _of_inputs(inputs: Sequence[Any], signs: Any) -> Any:
    return inputs[0] @ signs + inputs[1] * signs.sum()


OPERATOR = Operator(
    name="addscalar",
    dims=("N",),
    inputs=lambda dims: (dims, (1,)),
    output=lambda dims: dims,
    flops=lambda dims: dims[0],
    terms=lambda dims: 1,
    reference=_reference,
    scales=unscaled(2),
    fill_exact=fill_exact,
    sketch=signed(_of_inputs),
)
