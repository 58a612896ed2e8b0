"""Weights of 4 bits made wide, then ``torch.matmul``: torch's own call takes weights packed for one GPU."""

import torch

from harness.operators.int4linear import unpacked


def int4linear(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> None:
    """C[M,N] = X[M,K] · W[N,K]ᵀ, where W is P[N,K/2], two nibbles to a byte, less 8 and scaled by S[N,K/128]."""
    torch.matmul(x, unpacked(packed, scales).t(), out=out)
