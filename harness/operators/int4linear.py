"""``int4linear``: X[M,K] · W[N,K]ᵀ -> C[M,N], where W is of 4 bits, with a scale S[N,K/128] for each 128 of a row.

A byte of P[N,K/2] holds an even column in its low nibble, and the next column in its high one. A nibble p stands for
p - 8. The scales have the dtype of X.
"""

from collections.abc import Sequence
from typing import Any, Final

from harness.judge.facts.fills import Normal, Positive, Words
from harness.judge.facts.operator import Input, Operator, Output, Times
from harness.operators import products

GROUP: Final = 128
ZERO_POINT: Final = 8
SQUARES: Final = 21.5  # mean of the squares from -8 to 7


def unpacked(packed: Any, scales: Any) -> Any:
    """W[N,K] in the dtype of the scales."""
    import torch

    nibbles = torch.stack((packed & 15, packed >> 4), dim=-1).view(*scales.shape, GROUP)
    return ((nibbles.to(scales.dtype) - ZERO_POINT) * scales[..., None]).flatten(1)


def _of_inputs(inputs: Sequence[Any], signs: Any, times: Times) -> Any:
    x, packed, scales = inputs
    return times(x, times(unpacked(packed, scales.float()).T, signs))


def _fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Small integers, any nibbles, and powers of two as scales."""
    import torch

    x, _, scales = inputs
    products.fill_exact([x], dice)
    doubled = torch.randint(2, scales.shape, device=scales.device, generator=dice)
    scales.copy_(0.5 + 1.5 * doubled)


OPERATOR = Operator(
    name="int4linear",
    dims=("M", "N", "K"),
    dtypes=("bf16", "fp16", "f32"),
    requires=(f"K % {GROUP} == 0",),
    inputs={
        "x": Input("M, K", fill=Normal(products.SCALE)),
        "packed": Input("N, K // 2", "uint8", Words()),
        "scales": Input(f"N, K // {GROUP}", fill=Positive(f"{products.SCALE} / sqrt({SQUARES})")),
    },
    # A kernel may round the scaled weights to the dtype of X before it multiplies.
    outputs={"c": Output("M, N", terms="K", roundings=2)},
    flops="2 * M * N * K",
    reference=lambda x, packed, scales: x @ unpacked(packed, scales).T,
    fill_exact=_fill_exact,
    sketch=products.freivalds(_of_inputs),
    rows=("x",),
)
