"""``attentionbackward``: the gradients of Q, K and V of causal attention, from that of its output.

Q, K, V, O, dO[B,H,S,D] and L[B,H,S] -> dQ, dK, dV[B,H,S,D]. A forward pass would give O, and in L the logarithm of
the sum of each row's exponentials. Here both are drawn, so a weight is exp(score - L), and a row's sum is not 1.
"""

import math
from typing import Any, Final

from harness.judge.facts.fills import Normal
from harness.judge.facts.operator import Input, Operator, Output

SHAPE: Final = "B, H, S, D"
# Scores of half a deviation: the largest of many weights then does not stand alone, with its own rounding error.
NEAR: Final = Normal("sqrt(1 / 2)")


def _gradient(scale: str) -> Output:
    """The weights are rounded, then their gradients, then the output."""
    return Output(SHAPE, terms="S", roundings=3, scale=scale, skewed=True)


def _of_head(q: Any, k: Any, v: Any, o: Any, grad: Any, lse: Any) -> tuple[Any, Any, Any]:
    """The gradients of one head, [S,D] each."""
    scale = 1 / math.sqrt(q.shape[-1])
    weights = (q @ k.T * scale - lse[:, None]).exp_().tril_()
    of_scores = weights * (grad @ v.T - (grad * o).sum(dim=-1, keepdim=True)) * scale
    return of_scores @ k, of_scores.T @ q, weights.T @ grad


def _reference(*inputs: Any) -> tuple[Any, Any, Any]:
    """One head at a time, because memory should not hold the scores of several."""
    import torch

    flat = [each.flatten(0, 1) for each in inputs]
    heads = [_of_head(*head) for head in zip(*flat, strict=True)]
    dq, dk, dv = (torch.stack(each).view(inputs[0].shape) for each in zip(*heads, strict=True))
    return dq, dk, dv


OPERATOR = Operator(
    name="attentionbackward",
    dims=("B", "H", "S", "D"),
    dtypes=("bf16", "fp16", "f32"),
    inputs={
        "q": Input(SHAPE, fill=NEAR),
        "k": Input(SHAPE, fill=NEAR),
        "v": Input(SHAPE, fill=Normal("1 / sqrt(D)")),
        "o": Input(SHAPE, fill=Normal("1 / sqrt(32 * D)")),  # as small as a mean of values
        "do": Input(SHAPE),
        "lse": Input("B, H, S", "float32", Normal(0.25)),
    },
    # Sums of up to S weights, of which the root mean square is 1.3.
    outputs={
        "dq": _gradient("sqrt(2 * S / D)"),
        "dk": _gradient("sqrt(2 * S / D)"),
        "dv": _gradient("2 * sqrt(S)"),
    },
    flops="5 * B * H * S * S * D",  # five products; by convention a causal mask halves the count
    reference=_reference,
)
