"""``torch.nn.attention.varlen.varlen_attn``, which a CPU lacks: there it is attention of one sequence at a time."""

from inspect import signature
from itertools import pairwise
from typing import Any, Final

import torch
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

# torch 2.11 does not ask for it.
_GROUPED: Final[dict[str, Any]] = {"enable_gqa": True} if "enable_gqa" in signature(varlen_attn).parameters else {}


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """O[N,H,D] of Q[N,H,D], K[N,G,D] and V[N,G,D], causal."""
    rows, keys, values = (each.transpose(0, 1)[None] for each in (q, k, v))
    return scaled_dot_product_attention(rows, keys, values, is_causal=True, enable_gqa=True)[0].transpose(0, 1)


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
    return torch.cat([_attend(q[each], k[each], v[each]) for each in parts])
