"""The backward pass of ``scaled_dot_product_attention``, by the fastest of the operators that autograd calls."""

from collections.abc import Callable
from typing import Any, Final

import torch

from baselines.torch_sdpa import seconds

Backend = Callable[..., Any]
_aten: Final[Any] = torch.ops.aten
_fastest: dict[torch.Size, Backend] = {}


def _cudnn(*tensors: torch.Tensor) -> Any:
    *others, lse = tensors
    unused = torch.zeros(2, dtype=torch.int64, device=lse.device)
    rest = (*unused, None, None, None, lse.shape[-1], lse.shape[-1], 0.0, True)
    return _aten._scaled_dot_product_cudnn_attention_backward(*others, lse[..., None], *rest)


def _flash(*tensors: torch.Tensor) -> Any:
    tokens = tensors[-1].shape[-1]
    unused = torch.zeros(2, dtype=torch.uint64, device=tensors[0].device)
    rest = (None, None, tokens, tokens, 0.0, True, unused, unused[0])
    return _aten._scaled_dot_product_flash_attention_backward(*tensors, *rest)


def _on_a_cpu(*tensors: torch.Tensor) -> Any:
    return _aten._scaled_dot_product_flash_attention_for_cpu_backward(*tensors, 0.0, True)


def _taken_s(backend: Backend, tensors: tuple[torch.Tensor, ...]) -> float:
    try:
        return seconds(lambda: backend(*tensors))
    except RuntimeError:  # not for these shapes
        return float("inf")


def attentionbackward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, do: torch.Tensor, lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of Q, K and V[B,H,S,D] from dO, and from the output and the logarithms of sums of a forward pass."""
    tensors = (do, q, k, v, o, lse)
    if q.is_cuda and q.shape not in _fastest:
        _fastest[q.shape] = min((_cudnn, _flash), key=lambda each: _taken_s(each, tensors))
    dq, dk, dv = (_fastest[q.shape] if q.is_cuda else _on_a_cpu)(*tensors)
    return dq, dk, dv
