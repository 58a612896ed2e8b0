"""``softmax``: Y[M,N] = exp(X[M,N]) / sum(exp(X)), where the sum is of a row."""

from collections.abc import Sequence
from typing import Any, Final

from harness.judge.facts.operator import Input, Operator, Output

NOTHING: Final = -200.0  # beside a largest value of 0 its exponential vanishes


def fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Give each row two equal largest values at random, or one: both outputs are a half, or one is 1, others are 0."""
    import torch

    (x,) = inputs
    x.fill_(NOTHING)
    columns = torch.randint(x.shape[-1], (x.shape[0], 2), device=x.device, generator=dice)
    x.scatter_(1, columns, torch.zeros(columns.shape, dtype=x.dtype, device=x.device))


OPERATOR = Operator(
    name="softmax",
    dims=("M", "N"),
    inputs={"x": Input("M, N")},
    outputs={"y": Output("M, N", terms="N", scale="sqrt(e) / N", skewed=True)},
    flops="4 * M * N",
    reference=lambda x: x.softmax(dim=-1),
    fill_exact=fill_exact,
    exact_in="bfloat16",  # multiplying by log2(e) rounds, so a weight of exp2(x - x) is 1 to about 1e-5
    rows=("x",),
    corner_power=3,  # larger values make their rounding errors show in the exponentials
)
