"""``torch.nn.attention.varlen.varlen_attn``, which a CPU lacks: there it is attention of one sequence at a time."""

from inspect import signature
from itertools import pairwise
from typing import Any, Final

import torch
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

from harness.operators.pageddecode import cached

# torch 2.11 does not ask for it.
_GROUPED: Final[dict[str, Any]] = {"enable_gqa": True} if "enable_gqa" in signature(varlen_attn).parameters else {}


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """O[M,H,D] of Q[M,H,D], K[N,G,D] and V[N,G,D]."""
    rows, keys, values = (each.transpose(0, 1)[None] for each in (q, k, v))
    return scaled_dot_product_attention(rows, keys, values, is_causal=causal, enable_gqa=True)[0].transpose(0, 1)


def varlenattention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    starts: torch.Tensor,
    *,
    L: int,  # noqa: N803 - the dimension's name
) -> torch.Tensor:
    """Causal attention within sequences that start at S[B+1], of at most L tokens: O[N,H,D]."""
    if q.is_cuda:
        out = varlen_attn(q, k, v, starts, starts, L, L, window_size=(-1, 0), **_GROUPED)
        assert isinstance(out, torch.Tensor)
        return out
    parts = [slice(*bounds) for bounds in pairwise(starts.tolist()) if bounds[0] < bounds[1]]
    return torch.cat([_attend(q[each], k[each], v[each], causal=True) for each in parts])


def pageddecode(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Attention of Q[B,H,D] to the first N[b] tokens in the pages of a sequence: O[B,H,D]."""
    if q.is_cuda:
        each = torch.arange(len(q) + 1, dtype=torch.int32, device=q.device)
        tokens = table.shape[1] * k.shape[1]
        out = varlen_attn(q, k, v, each, None, 1, tokens, seqused_k=lengths, block_table=table, **_GROUPED)
        assert isinstance(out, torch.Tensor)
        return out
    rows = [[cached(pages, table[b], int(n)) for pages in (k, v)] for b, n in enumerate(lengths)]
    return torch.cat([_attend(q[b : b + 1], *pair, causal=False) for b, pair in enumerate(rows)])
