"""``attention``: O = softmax(Q·Kᵀ / sqrt(D))·V, as in ``scaled_dot_product_attention``; also with a causal mask.

Q[B,H,S,D], K[B,G,S,D], V[B,G,S,W] -> O[B,H,S,W]. B is the batch, H the heads, G the heads of keys and values (H / G
heads share one), S the tokens. D is the depth of Q and K, W the width of V.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from harness.judge.facts.fills import Normal
from harness.judge.facts.operator import OUTPUT_SCALE, Input, Operator, Output, Times
from harness.operators.products import signs_of
from harness.operators.sequences import CORNER_POWER, EXACT_IN, SKETCHED_ROWS, attend, codes


def _inputs(*, causal: bool) -> dict[str, Input]:
    """Inputs that give scores of variance 1. The squared weights of a row then sum to about e / keys.

    Long queries have larger sums, so the largest of 10^8 outputs is at ten deviations, not at six as in a product. At
    the full OUTPUT_SCALE the library's own rounding error was 0.0118 in bfloat16; half of it keeps most right outputs
    within the limits, and the output is uneven. The first row of a causal output has one key.
    """
    scale = OUTPUT_SCALE if causal else f"{OUTPUT_SCALE / 2} * sqrt(S / e)"
    return {"q": Input("B, H, S, D"), "k": Input("B, G, S, D"), "v": Input("B, G, S, W", fill=Normal(scale))}


def _hidden(rows: Any, tokens: int) -> Any:
    """The keys that a causal mask hides from each row of queries, [rows, tokens]."""
    import torch

    return torch.arange(tokens, device=rows.device) > rows[:, None]


def _reference(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """One head at a time, because memory should not hold the scores of several."""
    import torch

    batch, heads, tokens, _ = q.shape
    shared = heads // k.shape[1]
    hidden = _hidden(torch.arange(tokens, device=q.device), tokens) if causal else None
    result = q.new_empty(batch, heads, tokens, v.shape[-1])
    for b in range(batch):
        for h in range(heads):
            result[b, h] = attend(q[b, h], k[b, h // shared], v[b, h // shared], hidden)
    return result


def _sketch(inputs: Sequence[Any], output: Any, dice: Any, times: Times, *, causal: bool) -> tuple[Any, Any]:
    """Compute random rows of one head again, and read the whole output, to find elements that were not written."""
    import torch

    q, k, v = inputs
    batch, heads, tokens, _ = q.shape
    shared = heads // k.shape[1]
    b, h = (int(torch.randint(size, (1,), device=q.device, generator=dice)) for size in (batch, heads))
    rows = torch.randint(tokens, (SKETCHED_ROWS,), device=q.device, generator=dice)
    signs = signs_of(output, dice).float()
    hidden = _hidden(rows, tokens) if causal else None
    expected = attend(q[b, h, rows].float(), k[b, h // shared].float(), v[b, h // shared].float(), hidden)
    written = times(output.view(-1, output.shape[-1]), signs) * 0  # NaN where the output is
    return torch.cat((times(output[b, h, rows], signs), written)), torch.cat((expected @ signs, written * 0))


def _fill_exact(inputs: Sequence[Any], dice: Any, *, causal: bool) -> None:
    """Give each query the large key of one visible token: its weight is 1, and all others underflow to 0.

    The output is then that token's row of V, small integers, bit for bit, so a wrong index, mask or head shows. The
    keys are ``codes`` of their positions.
    """
    import torch

    q, k, v = inputs
    batch, heads, tokens, depth = q.shape
    shared = heads // k.shape[1]
    positions = torch.arange(tokens, device=q.device)
    bits = max(1, (tokens - 1).bit_length())
    for b in range(batch):
        for g in range(k.shape[1]):
            # Each head renames the positions, so that another head's keys select other tokens.
            name = int(torch.randint(1 << bits, (1,), device=q.device, generator=dice))
            k[b, g] = codes(positions ^ name, depth, tokens)
            for h in range(g * shared, (g + 1) * shared):
                meant = torch.randint(1 << 30, (tokens,), device=q.device, generator=dice)
                meant %= (positions + 1) if causal else tokens
                q[b, h] = codes(meant ^ name, depth, tokens)
    v.copy_(torch.randint(-2, 3, v.shape, device=v.device, generator=dice, dtype=torch.int8))


def operator(name: str, *, causal: bool) -> Operator:
    """The operator with or without a causal mask."""
    return Operator(
        name=name,
        dims=("B", "H", "G", "S", "D", "W"),
        inputs=_inputs(causal=causal),
        # The weights round to the input's dtype, and then the output.
        outputs={"o": Output("B, H, S, W", terms="S", roundings=2, uneven=not causal)},
        multiples=(("H", "G"),),
        # Two products of every query with every key; by convention a causal mask halves the count.
        flops=f"2 * B * H * S * S * (D + W) // {2 if causal else 1}",
        exact_in=EXACT_IN,
        corner_power=CORNER_POWER,
        reference=partial(_reference, causal=causal),
        rows=("q",),
        fill_exact=partial(_fill_exact, causal=causal),
        sketch=partial(_sketch, causal=causal),
    )


OPERATOR = operator("attention", causal=False)
