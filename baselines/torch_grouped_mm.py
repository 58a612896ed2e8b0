"""``torch.nn.functional.grouped_mm``: the library's products of groups of rows."""

import torch


def groupedlinear(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """C[M,N] = X[M,K] · W[E,N,K]ᵀ, with W of the expert; its rows end at S[E]."""
    return torch.nn.functional.grouped_mm(x, w.transpose(1, 2), offs=ends)
