"""``scaled_dot_product_attention`` by its fastest backend, found once on the problem's own tensors."""

import time
import warnings
from collections.abc import Callable
from typing import Final

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

BACKENDS: Final = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
TRIES: Final = 5


class _Attention:
    """The library's attention; it returns a new tensor, because no backend takes an output."""

    def __init__(self, *, causal: bool) -> None:
        self.causal = causal
        self.backend: SDPBackend | None = None

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if not q.is_cuda:
            return self._attend(q, k, v)
        if self.backend is None:
            self.backend = self._fastest(q, k, v)
        with sdpa_kernel(self.backend):
            return self._attend(q, k, v)

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=q.shape[1] != k.shape[1])

    def _fastest(self, *tensors: torch.Tensor) -> SDPBackend:
        def taken(backend: SDPBackend) -> float:
            try:
                with sdpa_kernel(backend), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # they say at length why a backend does not take these shapes
                    return seconds(lambda: self._attend(*tensors))
            except RuntimeError:  # not for these shapes
                return float("inf")

        return min(BACKENDS, key=taken)


def seconds(call: Callable[[], object]) -> float:
    """The shortest of a few runs on the GPU."""
    best = float("inf")
    for _ in range(TRIES):
        torch.cuda.synchronize()
        started = time.perf_counter()
        call()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - started)
    return best


_plain, _causal = _Attention(causal=False), _Attention(causal=True)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """O[B,H,S,W] = softmax(Q[B,H,S,D] · K[B,G,S,D]ᵀ / sqrt(D)) · V[B,G,S,W]."""
    return _plain(q, k, v)


def causalattention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """``attention`` in which a query sees the keys up to its own position."""
    return _causal(q, k, v)
