"""What the attentions share: some rows of them, keys that are far apart, and a sketch's sizes."""

import math
from typing import Any, Final

from harness.judge.facts.operator import OUTPUT_SCALE

SKETCHED_ROWS: Final = 64
APART: Final = 8.0  # size of the entries of a key in the exact trial
EXACT_IN: Final = "bfloat16"  # multiplying by the scale rounds, so a weight of exp2(x - x) is 1 to about 1e-4
CORNER_POWER: Final = 3  # larger scores make their rounding errors show in the weights


def attend(q: Any, k: Any, v: Any, hidden: Any = None) -> Any:
    """Attention of Q[R,D] to the keys K[N,D] and values V[N,W] of a head but where ``hidden``, [R,N], is true."""
    scores = q @ k.T / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores.masked_fill_(hidden, -math.inf)
    return scores.softmax(dim=-1) @ v


def codes(numbers: Any, depth: int, tokens: int) -> Any:
    """Keys of tokens, [N, depth]: binary codes of their numbers in +APART and -APART, repeated over the depth.

    Two of 16,384 differ in at least 9 entries of 128, so scores differ by 2 · 9 · APART² / sqrt(128) = 102. Beside a
    weight of 1 all others vanish, and the output is one row of the values.
    """
    import torch

    columns = torch.arange(depth, device=numbers.device) % max(1, (tokens - 1).bit_length())
    return (((numbers[:, None] >> columns) & 1) * 2 - 1) * APART


def levelled(rows: Any, expected: Any) -> Any:
    """Rows as large as if the expected ones had the scale that the limit of a sketch counts on."""
    return rows * (OUTPUT_SCALE / expected.square().mean(dim=-1, keepdim=True).sqrt().clamp_min(2.0**-100))
