"""``torch.nn.functional.rms_norm`` of a sum."""

import torch


def rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """T[M,N] = X + R, and Y[M,N] = T W[N] / sqrt(mean(T²) + eps); returns Y and T."""
    total = x + residual
    return torch.nn.functional.rms_norm(total, weight.shape, weight, eps), total
