"""``blockscaledlinear``: A[M,K] · W[N,K]ᵀ -> C[M,N], 8-bit inputs with one scale per block.

S[K/128,M] scales 1x128 blocks of A, with M fastest, as kernels read it. T[N/128,K/128] scales 128x128 blocks of W.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.judge.facts.operator import Times
from harness.operators import linear
from harness.operators.products import freivalds
from harness.operators.scaling import BLOCK, dequantised, fill_exact, inputs


def _reference(*inputs: Any) -> Any:
    a, w = dequantised(*inputs)
    return a @ w.T


def _of_inputs(inputs: Sequence[Any], signs: Any, times: Times) -> Any:
    a, w = dequantised(*inputs)
    return times(a, times(w.T, signs))


OPERATOR = replace(
    linear.OPERATOR,
    name="blockscaledlinear",
    inputs=inputs(f"ceildiv(K, {BLOCK}), M", f"ceildiv(N, {BLOCK}), ceildiv(K, {BLOCK})"),
    reference=_reference,
    fill_exact=fill_exact,
    sketch=freivalds(_of_inputs),
)
