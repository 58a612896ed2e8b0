"""The pages of a cache gathered into one tensor, then ``scaled_dot_product_attention`` with a mask of the lengths."""

import torch
from torch.nn.functional import scaled_dot_product_attention


def mladecode(
    q: torch.Tensor,
    cache: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    D: int,  # noqa: N803 - the dimension's name
) -> torch.Tensor:
    """Attention of Q[B,H,D+R] to the first N[b] tokens in the pages of a sequence: O[B,H,D]."""
    tokens = cache[table].flatten(1, 2)
    seen = torch.arange(tokens.shape[1], device=q.device) < lengths[:, None]
    keys = tokens.where(seen[..., None], 0.0)[:, None]
    return scaled_dot_product_attention(q[:, None], keys, keys[..., :D], attn_mask=seen[:, None, None])[:, 0]
