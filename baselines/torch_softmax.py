"""``torch.softmax`` into a given output."""

import torch


def softmax(x: torch.Tensor, out: torch.Tensor) -> None:
    """Y[M,N] = exp(X[M,N]) / sum(exp(X)) of each row."""
    torch.softmax(x, -1, out=out)
