"""``groupedlinear``: X[M,K] · W[E,N,K]ᵀ -> C[M,N], rows of X in order of their expert; expert e's end at S[e].

Expert e multiplies the rows from S[e-1] up to, not including, S[e]. An expert has at most M / spread rows, rounded up.
With spread = 1 the counts are uneven, and some are 0; with spread = E they are equal.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from harness.judge.facts.fills import Normal, Offsets
from harness.judge.facts.operator import Input, Operator, Output, Times
from harness.operators import products


def experts(x: Any, w: Any, ends: Any) -> Iterator[tuple[Any, Any]]:
    """The rows [m,K] and the weights [N,K] of each expert, in order of the rows."""
    for expert, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
        yield x[start:end], w[expert]


def _reference(x: Any, w: Any, ends: Any) -> Any:
    import torch

    return torch.cat([rows @ weights.T for rows, weights in experts(x, w, ends)])


def _of_inputs(inputs: Sequence[Any], signs: Any, times: Times) -> Any:
    import torch

    return torch.cat([times(rows, times(weights.T, signs)) for rows, weights in experts(*inputs) if len(rows)])


OPERATOR = Operator(
    name="groupedlinear",
    dims=("M", "N", "K", "E"),
    scalars={"spread": 1},
    dtypes=("bf16", "fp16", "f32"),
    inputs={
        "x": Input("M, K", fill=Normal(products.SCALE)),
        "w": Input("E, N, K", fill=Normal(products.SCALE)),
        "ends": Input("E", "int32", Offsets("M", "ceildiv(M, spread)", ends=True)),
    },
    outputs={"c": Output("M, N", terms="K")},
    flops="2 * M * N * K",
    # In 16 bits; W of an expert without rows is not read. About E M / (M + E) experts have rows, and one is made empty.
    bytes="2 * (M * K + M * N + max(1, E * M // (M + E) - 1) * N * K) + 4 * E",
    reference=_reference,
    fill_exact=lambda inputs, dice: products.fill_exact(inputs[:2], dice),
    sketch=products.freivalds(_of_inputs),
    rows=("x",),
)
