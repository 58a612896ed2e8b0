"""``rmsnorm``: T[M,N] = X[M,N] + R[M,N], and Y[M,N] = T W[N] / sqrt(mean(T²) + eps), where the mean is of a row."""

from typing import Any

from harness.judge.facts.fills import Signed
from harness.judge.facts.operator import Input, Operator, Output


def _reference(x: Any, residual: Any, weight: Any, *, eps: float) -> tuple[Any, Any]:
    total = x + residual
    return total * (total.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * weight, total


OPERATOR = Operator(
    name="rmsnorm",
    dims=("M", "N"),
    scalars={"eps": 1e-6},
    inputs={"x": Input("M, N"), "residual": Input("M, N"), "weight": Input("N", fill=Signed())},
    outputs={
        # A kernel may norm the total as it was rounded, so y has more room than its deviation of 1 gives.
        "y": Output("M, N", terms="N", roundings=2, scale=1.5, skewed=True),
        "total": Output("M, N", scale="sqrt(2)", skewed=True),
    },
    flops="6 * M * N",
    reference=_reference,
    rows=("x", "residual"),
)
