"""The gated delta rule in torch, chunk by chunk and in float32, as model code without kernels has it."""

import torch

from harness.operators.gateddelta import chunked


def gateddelta(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor, rate: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The outputs of the tokens, O[B,S,H,V], and the state T[B,H,K,V] after the last."""
    made, state = chunked(q.float(), k.float(), v.float(), decay, rate)
    return made.to(q.dtype), state.to(q.dtype)
