"""``softmax``: Y[M,N] = exp(X[M,N]) / sum(exp(X)), where the sum is of a row."""

from collections.abc import Sequence
from typing import Any, Final

from harness.judge.facts.operator import Input, Operator, Output

LEVELS: Final = 128  # of largest values, of either sign: exponentials of such overflow or vanish
BELOW: Final = 200.0  # an exponential vanishes beside that of a value this much larger


def fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Give each row two equal largest values at random, or one: both outputs are a half, or one is 1, others are 0.

    The largest is one of LEVELS, so a kernel that does not subtract it shows.
    """
    import torch

    (x,) = inputs
    largest = torch.randint(-LEVELS, LEVELS + 1, (x.shape[0], 1), device=x.device, generator=dice).to(x.dtype)
    x.copy_((largest - BELOW).expand_as(x))
    columns = torch.randint(x.shape[-1], (x.shape[0], 2), device=x.device, generator=dice)
    x.scatter_(1, columns, largest.expand(-1, 2))


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
