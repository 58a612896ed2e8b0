"""``copy``: X[M,N] -> Z[M,N]; the library's figure here is the ceiling of every problem that moves as many bytes."""

from collections.abc import Sequence
from typing import Any

from harness.judge.facts.operator import Operator
from harness.operators.products import fill_exact, signed, unscaled


def _reference(x: Any) -> Any:
    return x


def _of_inputs(inputs: Sequence[Any], signs: Any) -> Any:
    return inputs[0] @ signs


OPERATOR = Operator(
    name="copy",
    dims=("M", "N"),
    inputs=lambda dims: (dims,),
    output=lambda dims: dims,
    flops=lambda dims: 0,
    terms=lambda dims: 1,
    reference=_reference,
    scales=unscaled(1),
    fill_exact=fill_exact,
    sketch=signed(_of_inputs),
)
