"""``torch.relu`` and ``torch.matmul``, one after the other: the library has no call for both."""

import torch


def relumatmul(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """C[M,N] = relu(A[M,K]) · B[K,N]."""
    torch.matmul(torch.relu(a), b, out=out)
