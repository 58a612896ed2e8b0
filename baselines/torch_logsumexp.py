"""``torch.logsumexp``, and what cross entropy makes of it."""

import torch


def crossentropy(logits: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """S[M] = log(sum(exp(X[M,N]))) and L[M] = S - X[m, T[m]]; returns L and S, both float32."""
    wide = logits.float()
    lse = wide.logsumexp(dim=1)
    return lse - wide.gather(1, target[:, None])[:, 0], lse
