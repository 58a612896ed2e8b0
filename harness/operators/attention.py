"""``attention``: O = softmax(Q·Kᵀ / sqrt(D))·V, as ``scaled_dot_product_attention`` has it; and its causal kin.

Dimensions are batch B, heads H, key and value heads G (H / G heads share one), tokens S, depth D of Q and K, width W
of V: Q[B,H,S,D], K[B,G,S,D], V[B,G,S,W] -> O[B,H,S,W].
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from harness.judge.facts.operator import OUTPUT_SCALE, Dims, Operator, Shape, Times
from harness.operators.products import signs_of

SKETCHED_ROWS: Final = 64
APART: Final = 8.0  # size of the entries of a key in the exact trial


def _inputs(dims: Dims) -> tuple[Shape, ...]:
    batch, heads, groups, tokens, depth, width = dims
    return (batch, heads, tokens, depth), (batch, groups, tokens, depth), (batch, groups, tokens, width)


def _scales(dims: Dims, *, causal: bool) -> tuple[float, ...]:
    """Scores of variance 1: a row's squared weights then sum to e / keys, but more where the query is a long one.

    So the largest of 10^8 outputs lies at ten deviations, not at six as in a product, and its rounding with it: at the
    full OUTPUT_SCALE the library's own was off by 0.0118 in bfloat16. Half of it keeps right ones within the limits.
    A causal output's first row has one key.
    """
    return 1.0, 1.0, OUTPUT_SCALE if causal else OUTPUT_SCALE / 2 * math.sqrt(dims[3] / math.e)


def _flops(dims: Dims, *, causal: bool) -> int:
    """Two products of every query with every key; a causal one counts as half, as is usual."""
    batch, heads, _, tokens, depth, width = dims
    return 2 * batch * heads * tokens * tokens * (depth + width) // (2 if causal else 1)


def _attend(q: Any, k: Any, v: Any, last_seen: Any) -> Any:
    """Rows of queries against all keys of a head; ``last_seen`` is the last key of each row, None for all."""
    import torch

    scores = q @ k.T / math.sqrt(q.shape[-1])
    if last_seen is not None:
        scores.masked_fill_(torch.arange(len(k), device=q.device) > last_seen[:, None], -math.inf)
    return scores.softmax(dim=-1) @ v


def _reference(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """One head at a time: its scores are as many as memory should hold at once."""
    import torch

    batch, heads, tokens, _ = q.shape
    shared = heads // k.shape[1]
    rows = torch.arange(tokens, device=q.device) if causal else None
    result = q.new_empty(batch, heads, tokens, v.shape[-1])
    for b in range(batch):
        for h in range(heads):
            result[b, h] = _attend(q[b, h], k[b, h // shared], v[b, h // shared], rows)
    return result


def _sketch(inputs: Sequence[Any], output: Any, dice: Any, times: Times, *, causal: bool) -> tuple[Any, Any]:
    """Some rows of one head, drawn anew and computed again; and all of the output read, for what was not written."""
    import torch

    q, k, v = inputs
    batch, heads, tokens, _ = q.shape
    shared = heads // k.shape[1]
    b, h = (int(torch.randint(size, (1,), device=q.device, generator=dice)) for size in (batch, heads))
    rows = torch.randint(tokens, (SKETCHED_ROWS,), device=q.device, generator=dice)
    signs = signs_of(output, dice).float()
    seen = rows if causal else None
    expected = _attend(q[b, h, rows].float(), k[b, h // shared].float(), v[b, h // shared].float(), seen)
    written = times(output.view(-1, output.shape[-1]), signs) * 0  # NaN where the output is
    return torch.cat((times(output[b, h, rows], signs), written)), torch.cat((expected @ signs, written * 0))


def _fill_exact(inputs: Sequence[Any], dice: Any, *, causal: bool) -> None:
    """Each query has the key of one token that it sees, large: its weight is 1, all others underflow to 0.

    The output is then that token's row of V, small integers, bit for bit: what a wrong index, mask or head gets wrong.
    Keys are binary codes of their position in +APART and -APART, repeated over D: for 16,384 tokens and D = 128 any two
    differ in 9 entries at least, and scores by 2 · 9 · APART² / sqrt(D) = 102, where exp(-102) is nothing beside 1.
    """
    import torch

    q, k, v = inputs
    batch, heads, tokens, depth = q.shape
    shared = heads // k.shape[1]
    positions = torch.arange(tokens, device=q.device)
    bits = max(1, (tokens - 1).bit_length())
    columns = torch.arange(depth, device=q.device) % bits

    def code(numbers: Any) -> Any:
        return (((numbers[:, None] >> columns) & 1) * 2 - 1) * APART

    for b in range(batch):
        for g in range(k.shape[1]):
            # Each head has its own names for the positions, so that another head's keys lead elsewhere.
            name = int(torch.randint(1 << bits, (1,), device=q.device, generator=dice))
            k[b, g] = code(positions ^ name)
            for h in range(g * shared, (g + 1) * shared):
                meant = torch.randint(1 << 30, (tokens,), device=q.device, generator=dice)
                meant %= (positions + 1) if causal else tokens
                q[b, h] = code(meant ^ name)
    v.copy_(torch.randint(-2, 3, v.shape, device=v.device, generator=dice, dtype=torch.int8))


def operator(name: str, *, causal: bool) -> Operator:
    """The operator with or without a causal mask."""
    return Operator(
        name=name,
        dims=("B", "H", "G", "S", "D", "W"),
        inputs=_inputs,
        output=lambda dims: (dims[0], dims[1], dims[3], dims[5]),
        multiples=(("H", "G"),),
        flops=partial(_flops, causal=causal),
        terms=lambda dims: dims[3],
        exact_in="bfloat16",  # a weight of exp2(x - x) is 1 to about 1e-4, where the multiplication by the scale rounds
        roundings=2,  # the weights' to the input dtype, and the output's
        reference=partial(_reference, causal=causal),
        scales=partial(_scales, causal=causal),
        fill_exact=partial(_fill_exact, causal=causal),
        sketch=partial(_sketch, causal=causal),
    )


OPERATOR = operator("attention", causal=False)
