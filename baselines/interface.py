"""The one interface of a baseline, and which baseline a problem has."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from baselines import torch_matmul
from baselines.torch_attention import Attention
from harness.errors import UsageError
from harness.problem import Problem


@dataclass(frozen=True, slots=True)
class Baseline:
    """A library call that takes the problem's inputs and writes its output: ``baseline(a, b, out)``.

    ``returns`` marks one that can only return its output; what is timed as the opponent is then the call alone, while
    iter000 copies, and so looks slower than its opponent by as much as a copy takes.
    """

    name: str
    call: Callable[..., torch.Tensor | None]
    returns: bool = False

    def __call__(self, *tensors: torch.Tensor) -> None:
        if self.returns:
            tensors[-1].copy_(self._made(*tensors))
        else:
            self.call(*tensors)

    def alone(self, *tensors: torch.Tensor) -> None:
        """The call as a user would make it, whose output nobody looks at."""
        self.call(*(tensors[:-1] if self.returns else tensors))

    def _made(self, *tensors: torch.Tensor) -> torch.Tensor:
        result = self.call(*tensors[:-1])
        assert result is not None
        return result


_BASELINES = {
    "matmul": Baseline("torch.matmul", torch_matmul.matmul),
    "linear": Baseline("torch.matmul", torch_matmul.linear),
    "attention": Baseline("torch sdpa", Attention(causal=False), returns=True),
    "causalattention": Baseline("torch sdpa", Attention(causal=True), returns=True),
}


def library(problem: Problem) -> Baseline:
    """The library's call for a problem; raises UsageError where none is registered."""
    try:
        return _BASELINES[problem.operator]
    except KeyError:
        raise UsageError(f"no baseline for operator '{problem.operator}'; add one to baselines/") from None
