"""``topk``: the K largest of each row of X[M,N], in falling order: values V[M,K] and positions I[M,K]."""

from collections.abc import Sequence
from typing import Any

from harness.judge.facts.operator import Input, Operator, Output
from harness.operators.products import fill_exact


def _equivalent(inputs: Sequence[Any], outputs: Sequence[Any], expected: Sequence[Any]) -> tuple[Any, Any]:
    """Of equal values any position is right, if the row names none twice."""
    (x,), (values, indices), found = inputs, expected, outputs[1]
    inside = found.clamp(0, x.shape[-1] - 1)
    named = inside.sort(dim=-1).values
    twice = (named[:, 1:] == named[:, :-1]).any(dim=-1, keepdim=True)
    right = (inside == found) & (x.gather(1, inside).to(values.dtype) == values) & ~twice
    return values, found.where(right, indices)


OPERATOR = Operator(
    name="topk",
    dims=("M", "N", "K"),
    requires=("K <= N",),
    dtypes=("bf16", "fp16", "f32"),
    inputs={"x": Input("M, N")},
    outputs={"values": Output("M, K", "input", scale=1.0), "indices": Output("M, K", "int64")},
    flops="M * N",
    reference=lambda x, *, K: x.topk(K, dim=-1),
    fill_exact=fill_exact,
    equivalent=_equivalent,
    rows=("x",),
)
