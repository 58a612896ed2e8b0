"""``matmul``: row-major A[M,K] · B[K,N] -> C[M,N]."""

from collections.abc import Sequence
from typing import Any

from harness.judge.facts.operator import Operator, Times
from harness.operators.products import fill_exact, freivalds, scales


def _reference(a: Any, b: Any) -> Any:
    return a @ b


def _of_inputs(inputs: Sequence[Any], signs: Any, times: Times) -> Any:
    a, b = inputs
    return times(a, times(b, signs))


OPERATOR = Operator(
    name="matmul",
    dims=("M", "N", "K"),
    inputs=lambda dims: ((dims[0], dims[2]), (dims[2], dims[1])),
    output=lambda dims: (dims[0], dims[1]),
    flops=lambda dims: 2 * dims[0] * dims[1] * dims[2],
    terms=lambda dims: dims[2],
    reference=_reference,
    scales=scales,
    fill_exact=fill_exact,
    sketch=freivalds(_of_inputs),
)
