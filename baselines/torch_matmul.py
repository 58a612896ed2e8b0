"""``torch.matmul`` into a given output: cuBLAS on a GPU, oneDNN or MKL on a CPU."""

import torch


def matmul(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """C[M,N] = A[M,K] · B[K,N]."""
    torch.matmul(a, b, out=out)


def linear(a: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
    """C[M,N] = A[M,K] · W[N,K]ᵀ."""
    torch.matmul(a, w.t(), out=out)
