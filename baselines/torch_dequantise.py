"""``torch.matmul`` on weights of 4 bits that were made wide once, as a user without a kernel for them would do."""

import torch

from harness.operators.int4linear import unpacked


def int4linear(x: torch.Tensor, wide: torch.Tensor, out: torch.Tensor) -> None:
    """C[M,N] = X[M,K] · W[N,K]ᵀ."""
    torch.matmul(x, wide.t(), out=out)


def prepare_int4linear(
    x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """X, and W from P[N,K/2], two nibbles to a byte, less 8 and scaled by S[N,K/128]."""
    return x, unpacked(packed, scales)
