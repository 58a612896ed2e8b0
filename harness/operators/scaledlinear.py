"""``scaledlinear``: (A[M,K] · W[N,K]ᵀ) s[1] t[1] -> C[M,N], 8-bit inputs with one scale in memory per tensor."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.judge.facts.operator import Times
from harness.operators import linear
from harness.operators.products import freivalds
from harness.operators.scaling import fill_exact, inputs


def _reference(a: Any, w: Any, scale_a: Any, scale_w: Any) -> Any:
    return a @ w.T * (scale_a * scale_w)


def _of_inputs(inputs: Sequence[Any], signs: Any, times: Times) -> Any:
    a, w, scale_a, scale_w = inputs
    return times(a, times(w.T, signs)) * (scale_a * scale_w)


OPERATOR = replace(
    linear.OPERATOR,
    name="scaledlinear",
    inputs=inputs("1", "1"),
    reference=_reference,
    fill_exact=fill_exact,
    sketch=freivalds(_of_inputs),
)
