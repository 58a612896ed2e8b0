"""``linear``: row-major A[M,K] · W[N,K]ᵀ -> C[M,N], as a layer of a network multiplies by its weights."""

from collections.abc import Sequence
from typing import Any

from harness.judge.facts.operator import Operator, Times
from harness.operators.products import fill_exact, freivalds, scales


def _reference(a: Any, w: Any) -> Any:
    return a @ w.T


def _of_inputs(inputs: Sequence[Any], signs: Any, times: Times) -> Any:
    a, w = inputs
    return times(a, times(w.T, signs))


OPERATOR = Operator(
    name="linear",
    dims=("M", "N", "K"),
    inputs=lambda dims: ((dims[0], dims[2]), (dims[1], dims[2])),
    output=lambda dims: (dims[0], dims[1]),
    flops=lambda dims: 2 * dims[0] * dims[1] * dims[2],
    terms=lambda dims: dims[2],
    reference=_reference,
    scales=scales,
    fill_exact=fill_exact,
    sketch=freivalds(_of_inputs),
)
