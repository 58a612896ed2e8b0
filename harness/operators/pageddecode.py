"""``pageddecode``: attention of a new token of each of B sequences to the keys and values in the pages of a cache.

Q[B,H,D], K[B·T,S,G,D], V[B·T,S,G,D], table P[B,T], lengths N[B] -> O[B,H,D]. H / G heads share one head of keys and
values. A page holds S tokens. Token t of sequence b is in page P[b, t / S], and t is below N[b], which is at most T S.
"""

from collections.abc import Sequence
from typing import Any, Final

from harness.judge.facts.fills import Lengths, Normal, PageTable
from harness.judge.facts.operator import OUTPUT_SCALE, Input, Operator, Output, Times
from harness.operators.products import signs_of
from harness.operators.sequences import CORNER_POWER, EXACT_IN, attend, codes, levelled

SKETCHED_SEQUENCES: Final = 4
CACHE: Final = "B * T, S, G, D"


def cached(pages: Any, table: Any, length: int) -> Any:
    """The rows of a sequence, [N,G,D], from its pages."""
    return pages[table.long()].flatten(0, 1)[:length]


def _of_sequence(b: int, q: Any, k: Any, v: Any, table: Any, lengths: Any) -> Any:
    """O[H,D] of one sequence, in the dtype of Q."""
    import torch

    keys, values = (cached(each, table[b], int(lengths[b])).to(q.dtype) for each in (k, v))
    groups = q[b].view(k.shape[2], -1, q.shape[-1])
    return torch.cat([attend(rows, keys[:, g], values[:, g]) for g, rows in enumerate(groups)])


def reference(q: Any, *others: Any) -> Any:
    import torch

    return torch.stack([_of_sequence(b, q, *others) for b in range(len(q))])


def sketch(inputs: Sequence[Any], output: Any, dice: Any, times: Times) -> tuple[Any, Any]:
    """Compute the longest, the shortest and random sequences again, and read the whole output."""
    import torch

    q, k, v, table, lengths = inputs
    drawn = torch.randint(len(q), (SKETCHED_SEQUENCES,), device=q.device, generator=dice)
    chosen = [int(lengths.argmax()), int(lengths.argmin()), *drawn.tolist()]
    signs = signs_of(output, dice).float()
    expected = torch.cat([_of_sequence(b, q.float(), k, v, table, lengths) for b in chosen])
    found = levelled(output[chosen].flatten(0, 1).float(), expected) @ signs
    written = times(output.view(-1, output.shape[-1]), signs) * 0  # NaN where the output is
    return torch.cat((found, written)), torch.cat((levelled(expected, expected) @ signs, written * 0))


def mean_tokens(q: Any, k: Any, table: Any, lengths: Any, dice: Any) -> None:
    """Let each query mean one token: of four heads one the last, one another of the last page, the others any."""
    import torch

    heads, depth, size = q.shape[1], q.shape[2], k.shape[1]
    tokens = table.shape[1] * size
    shared = heads // k.shape[2]
    positions = torch.arange(tokens, device=q.device)
    for b, length in enumerate(lengths.tolist()):
        anywhere = torch.randint(1 << 30, (heads,), device=q.device, generator=dice)
        meant = anywhere % length
        meant[::4] = length - 1
        meant[2::4] = length - 1 - anywhere[2::4] % ((length - 1) % size + 1)
        for g in range(k.shape[2]):
            # Each head renames the positions, so that another head's keys select other tokens.
            name = int(torch.randint(1 << max(1, (tokens - 1).bit_length()), (1,), device=q.device, generator=dice))
            k[table[b].long(), :, g] = codes(positions ^ name, depth, tokens).to(k.dtype).view(-1, size, depth)
            of_group = slice(g * shared, (g + 1) * shared)
            q[b, of_group] = codes(meant[of_group] ^ name, depth, tokens).to(q.dtype)


def _fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    import torch

    q, k, v, table, lengths = inputs
    mean_tokens(q, k, table, lengths, dice)
    v.copy_(torch.randint(-2, 3, v.shape, device=v.device, generator=dice, dtype=torch.int8))


def beyond(pages: Any, table: Any, lengths: Any) -> Any:
    """What lies beyond a length, in the last page and in those after it: a mask of the cache's tokens."""
    import torch

    later = torch.arange(table.shape[1] * pages.shape[1], device=pages.device) >= lengths[:, None]
    hidden = torch.ones(pages.shape[:2], dtype=torch.bool, device=pages.device)
    hidden[table.long().flatten()] = later.view(-1, pages.shape[1])
    return hidden


OPERATOR = Operator(
    name="pageddecode",
    dims=("B", "H", "G", "D", "T", "S"),
    dtypes=("bf16", "fp16", "f32"),
    inputs={
        "q": Input("B, H, D"),
        "k": Input(CACHE),
        "v": Input(CACHE, fill=Normal(OUTPUT_SCALE)),
        "table": Input("B, T", "int32", PageTable("B * T")),
        "lengths": Input("B", "int32", Lengths("T * S")),
    },
    # The weights round to the input's dtype, and then the output.
    outputs={"o": Output("B, H, D", terms="T * S", roundings=2)},
    multiples=(("H", "G"),),
    # Of lengths of half of the most, which is their mean; bytes are in 16 bits.
    flops="2 * B * H * D * T * S",
    bytes="2 * B * (T * S * G * D + 2 * H * D)",
    exact_in=EXACT_IN,
    corner_power=CORNER_POWER,
    reference=reference,
    rows=("q",),
    fill_exact=_fill_exact,
    sketch=sketch,
    unread=lambda q, k, v, table, lengths: dict.fromkeys(("k", "v"), beyond(k, table, lengths)),
)
