"""The one interface of a baseline, and which baseline a problem has."""

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


def library(problem: Problem) -> Baseline:
    """The function named like the problem's operator, of the module here that has one; raises UsageError.

    One that takes no output to write to, ``out``, returns it.
    """
    module = baseline_module(CHECKOUT, problem.operator)
    if module is None:
        raise UsageError(f"no baseline for operator '{problem.operator}'; add one to baselines/")
    call: Callable[..., torch.Tensor | None] = getattr(import_module(f"baselines.{module.stem}"), problem.operator)
    return Baseline(baseline_name(module), call, returns="out" not in signature(call).parameters)
