"""``varlenattention``: causal attention within each of B sequences of N tokens in all; S[B+1] says where they start.

Q[N,H,D], K[N,G,D], V[N,G,D] -> O[N,H,D]. H / G heads share one head of keys and values. A sequence has at most L
tokens, and may have none.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from harness.judge.facts.fills import Normal, Offsets
from harness.judge.facts.operator import OUTPUT_SCALE, Input, Operator, Output, Times
from harness.operators.products import signs_of
from harness.operators.sequences import CORNER_POWER, EXACT_IN, SKETCHED_ROWS, attend, codes, levelled


def _reference(q: Any, k: Any, v: Any, starts: Any) -> Any:
    """One head of one sequence at a time, because memory should not hold the scores of several."""
    import torch

    result, shared = torch.empty_like(q), q.shape[1] // k.shape[1]
    for start, end in pairwise(starts.tolist()):
        hidden = torch.ones(end - start, end - start, dtype=torch.bool, device=q.device).triu_(1)
        for h in range(q.shape[1]):
            rows = (q[start:end, h], k[start:end, h // shared], v[start:end, h // shared])
            result[start:end, h] = attend(*rows, hidden)
    return result


def _sketch(inputs: Sequence[Any], output: Any, dice: Any, times: Times) -> tuple[Any, Any]:
    """Compute random rows of one head again, all as large as the first, and read the whole output."""
    import torch

    q, k, v, starts = inputs
    tokens, heads, _ = q.shape
    h = int(torch.randint(heads, (1,), device=q.device, generator=dice))
    g = h * k.shape[1] // heads
    rows = torch.randint(tokens, (SKETCHED_ROWS,), device=q.device, generator=dice)
    ends = torch.searchsorted(starts.long(), rows, right=True)
    first = starts.long()[ends - 1]
    keys = torch.arange(tokens, device=q.device)
    hidden = (keys < first[:, None]) | (keys > rows[:, None])
    signs = signs_of(output, dice).float()
    expected = attend(q[rows, h].float(), k[:, g].float(), v[:, g].float(), hidden)
    written = times(output.view(-1, output.shape[-1]), signs) * 0  # NaN where the output is
    found = levelled(output[rows, h].float(), expected) @ signs
    return torch.cat((found, written)), torch.cat((levelled(expected, expected) @ signs, written * 0))


def _fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Let each query mean one token that it sees. Other sequences have tokens of the same key, hidden from it."""
    import torch

    q, k, v, starts = inputs
    depth = q.shape[-1]
    shared = q.shape[1] // k.shape[1]
    bounds = list(pairwise(starts.tolist()))
    longest = max(end - start for start, end in bounds)
    for g in range(k.shape[1]):
        # Each head renames the positions, so that another head's keys select other tokens.
        name = int(torch.randint(1 << max(1, (longest - 1).bit_length()), (1,), device=q.device, generator=dice))
        for start, end in bounds:
            positions = torch.arange(end - start, device=q.device)
            k[start:end, g] = codes(positions ^ name, depth, longest).to(k.dtype)
            for h in range(g * shared, (g + 1) * shared):
                meant = torch.randint(1 << 30, positions.shape, device=q.device, generator=dice) % (positions + 1)
                q[start:end, h] = codes(meant ^ name, depth, longest).to(q.dtype)
    v.copy_(torch.randint(-2, 3, v.shape, device=v.device, generator=dice, dtype=torch.int8))


OPERATOR = Operator(
    name="varlenattention",
    dims=("B", "H", "G", "N", "L", "D"),
    dtypes=("bf16", "fp16", "f32"),
    inputs={
        "q": Input("N, H, D"),
        "k": Input("N, G, D"),
        "v": Input("N, G, D", fill=Normal(OUTPUT_SCALE)),
        "starts": Input("B + 1", "int32", Offsets("N", "L")),
    },
    # The weights round to the input's dtype, and then the output.
    outputs={"o": Output("N, H, D", terms="L", roundings=2)},
    multiples=(("H", "G"),),
    # Half of two products of every query with every key, of sequences of one length: other lengths have more.
    flops="2 * H * D * N * N // B",
    exact_in=EXACT_IN,
    corner_power=CORNER_POWER,
    reference=_reference,
    rows=("q",),
    fill_exact=_fill_exact,
    sketch=_sketch,
)
