"""The pages of a cache gathered into one tensor, then ``scaled_dot_product_attention`` with a mask of the lengths.

Where torch's ``varlen_attn`` takes a page table, which that of torch 2.11 does not, ``pageddecode`` calls it on a GPU.
A row names the call that it had.
"""

from inspect import signature
from typing import Final

import torch
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

PAGED: Final = "block_table" in signature(varlen_attn).parameters


def _gathered(cache: torch.Tensor, table: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """The tokens of each sequence [B,N,…] from a cache in pages; its first token instead of those beyond its length."""
    size = cache.shape[1]
    tokens = (table[..., None] * size + torch.arange(size, device=table.device)).flatten(1)
    return cache.flatten(0, 1)[tokens.where(seen, tokens[:, :1])]


def _seen(cache: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The mask of the tokens below each length: bool [B,N]."""
    return torch.arange(table.shape[1] * cache.shape[1], device=table.device) < lengths[:, None]


def mladecode(
    q: torch.Tensor,
    cache: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    D: int,  # noqa: N803 - the dimension's name
) -> torch.Tensor:
    """Attention of Q[B,H,D+R] to the first N[b] tokens in the pages of a sequence: O[B,H,D]."""
    seen = _seen(cache, table, lengths)
    keys = _gathered(cache, table, seen)[:, None]
    return scaled_dot_product_attention(q[:, None], keys, keys[..., :D], attn_mask=seen[:, None, None])[:, 0]


def name_pageddecode() -> str:
    return "torch.varlen_attn" if PAGED and torch.cuda.is_available() else "torch.gather_then_sdpa"


def pageddecode(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Attention of Q[B,H,D] to the first N[b] tokens in the pages of a sequence: O[B,H,D]."""
    if PAGED and q.is_cuda:
        each = torch.arange(len(q) + 1, dtype=torch.int32, device=q.device)
        most = table.shape[1] * k.shape[1]
        out = varlen_attn(q, k, v, each, None, 1, most, enable_gqa=True, seqused_k=lengths, block_table=table)
        assert isinstance(out, torch.Tensor)
        return out
    seen = _seen(k, table, lengths)
    keys, values = (_gathered(each, table, seen).transpose(1, 2) for each in (k, v))
    # The heads that share keys are rows of one, since a mask leaves few backends that know groups of heads.
    rows = q.unflatten(1, (k.shape[2], -1))
    return scaled_dot_product_attention(rows, keys, values, attn_mask=seen[:, None, None]).flatten(1, 2)
