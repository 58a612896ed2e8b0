"""Scales of 8-bit inputs, one per tensor or per block of 128."""

from collections.abc import Sequence
from typing import Any, Final

from harness.judge.facts.fills import Positive
from harness.judge.facts.operator import Input
from harness.operators import products

BLOCK: Final = 128


def inputs(scale_a: str, scale_w: str) -> dict[str, Input]:
    """Values that 8 bits hold well. Their scales, below 1 for any K, give the output its scale."""
    factors = {"scale_a": scale_a, "scale_w": scale_w}
    return {"a": Input("M, K"), "w": Input("N, K")} | {
        name: Input(shape, "float32", Positive(products.SCALE)) for name, shape in factors.items()
    }


def fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Fill with small integers and powers of two as scales; no scale is 1, nor is a product of two."""
    import torch

    *matrices, scale_a, scale_w = inputs
    products.fill_exact(matrices, dice)
    for scale, powers in ((scale_a, (0.5, 2.0)), (scale_w, (0.25, 4.0))):
        which = torch.randint(len(powers), scale.shape, device=scale.device, generator=dice)
        scale.copy_(torch.tensor(powers, device=scale.device)[which])


def dequantised(a: Any, w: Any, scale_a: Any, scale_w: Any) -> tuple[Any, Any]:
    """A[M,K] and W[N,K] times their scales, [K/128,M] and [N/128,K/128], in the dtype of the scales."""
    rows = scale_w.repeat_interleave(BLOCK, dim=0)[: len(w)]
    wide_a, wide_w = (
        each.to(scale.dtype) * scale.repeat_interleave(BLOCK, dim=1)[:, : each.shape[1]]
        for each, scale in ((a, scale_a.T), (w, rows))
    )
    return wide_a, wide_w
