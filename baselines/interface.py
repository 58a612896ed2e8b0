"""The one interface of a baseline, and which baseline a problem has."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from baselines import torch_matmul
from harness.errors import UsageError
from harness.problem import Problem


@dataclass(frozen=True, slots=True)
class Baseline:
    """A library call that takes the problem's inputs and writes its output: ``baseline(a, b, out)``."""

    name: str
    call: Callable[..., None]

    def __call__(self, *tensors: torch.Tensor) -> None:
        self.call(*tensors)


_BASELINES = {
    "matmul": Baseline("torch.matmul", torch_matmul.matmul),
    "linear": Baseline("torch.matmul", torch_matmul.linear),
}


def library(problem: Problem) -> Baseline:
    """The library's call for a problem; raises UsageError where none is registered."""
    try:
        return _BASELINES[problem.operator]
    except KeyError:
        raise UsageError(f"no baseline for operator '{problem.operator}'; add one to baselines/") from None
