"""``softmax``: Y[M,N] = exp(X[M,N]) / sum(exp(X)), where the sum is of a row."""

from collections.abc import Sequence
from typing import Any, Final

from harness.judge.facts.operator import Input, Operator, Output

LEVELS: Final = 128  # the largest values lie from -LEVELS to LEVELS: their exponentials overflow or vanish
BELOW: Final = 200.0  # beside a value larger by this, an exponential vanishes


def fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Give each row two equal largest values at random, or one: both outputs are a half, or one is 1, others are 0.

    A kernel that does not subtract the largest value shows.
    """
    import torch

    (x,) = inputs
    rows, width = x.shape
    largest = torch.randint(-LEVELS, LEVELS + 1, (rows, 1), device=x.device, generator=dice).float()
    columns = torch.randint(width, (rows, 2), device=x.device, generator=dice)
    x.copy_((largest - BELOW).repeat(1, width).scatter_(1, columns, largest.expand(-1, 2)))


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
