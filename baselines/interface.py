"""The interface of baselines, and the baseline of each problem."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Final

import torch

from harness.errors import UsageError
from harness.judge.facts.hashes import baseline_module, baseline_name
from harness.judge.facts.problem import Problem

CHECKOUT: Final = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Baseline:
    """A library call that takes the problem's inputs and writes its output: ``baseline(a, b, out)``.

    ``returns`` marks a call that can only return its output. The baseline is then timed without a copy, while iter000
    copies the result, and so is slower by the time of a copy.
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
        """The call as a user makes it, without a copy of its output."""
        self.call(*(tensors[:-1] if self.returns else tensors))

    def _made(self, *tensors: torch.Tensor) -> torch.Tensor:
        result = self.call(*tensors[:-1])
        assert result is not None
        return result


def library(problem: Problem) -> Baseline:
    """The function named like the problem's operator. Raises UsageError if no module here has one.

    A function without a parameter ``out`` returns its output.
    """
    module = baseline_module(CHECKOUT, problem.operator)
    if module is None:
        raise UsageError(f"no baseline for operator '{problem.operator}'; add one to baselines/")
    call: Callable[..., torch.Tensor | None] = getattr(import_module(f"baselines.{module.stem}"), problem.operator)
    return Baseline(baseline_name(module), call, returns="out" not in signature(call).parameters)
