"""``torch.add`` into a given output."""

import torch


def add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """Z[N] = X[N] + Y[N]."""
    torch.add(x, y, out=out)


def addscalar(x: torch.Tensor, scalar: torch.Tensor, out: torch.Tensor) -> None:
    """Z[N] = X[N] + s[1]."""
    torch.add(x, scalar, out=out)
